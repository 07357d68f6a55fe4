"""Tests of quantflow.graph."""
