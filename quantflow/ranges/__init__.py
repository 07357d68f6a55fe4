"""Ranges of activations: one histogram per tensor, and the estimators that read it."""
