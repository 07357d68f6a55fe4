"""Conversion with atc: command, checks before it starts, its answers, and the hand-over folder."""
