"""What is wrong with samples before any comparison: repeats, leaks, nothing in them."""
