"""Tests of quantflow.artifacts."""
