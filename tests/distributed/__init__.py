"""Calibration by several processes."""
