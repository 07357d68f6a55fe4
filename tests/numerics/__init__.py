"""Tests of quantflow.numerics."""
