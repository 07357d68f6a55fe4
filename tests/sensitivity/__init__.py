"""Tests of quantflow.sensitivity."""
