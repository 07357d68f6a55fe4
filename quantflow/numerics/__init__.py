"""Pure numerical functions: quantization, rounding, error metrics, bootstrap."""
