"""The deployment profile: all that the gate and the selection need to know of production."""
