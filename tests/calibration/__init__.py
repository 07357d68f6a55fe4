"""Tests of quantflow.calibration."""
