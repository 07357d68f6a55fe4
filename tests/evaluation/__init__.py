"""Tests of quantflow.evaluation."""
