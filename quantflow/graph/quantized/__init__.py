"""Models that come quantized (QDQ): what they say of each layer, and the float model in them."""
