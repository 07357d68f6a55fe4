"""Tests of models that come quantized."""
