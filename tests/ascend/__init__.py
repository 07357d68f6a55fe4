"""Tests of the conversion with atc."""
