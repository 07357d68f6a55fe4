"""Measuring quantized against fp16 and fp32."""
