"""Tests of quantflow.runtime."""
