"""Tests of quantflow.ranges."""
