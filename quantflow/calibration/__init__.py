"""The calibration set: sources, preprocessing, draws."""
