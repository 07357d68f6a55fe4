"""What ranges alone cannot recover: equivalent transforms, rounding and bias correction."""
