"""Tests of language models from end to end."""
