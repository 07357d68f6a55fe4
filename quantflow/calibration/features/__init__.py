"""What is measured of a sample: lengths, tokens, text, values, the model's own outputs."""
