"""Tests of quantflow.tasks."""
