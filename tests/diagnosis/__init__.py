"""Tests of `quantflow diagnose`: causes that are planted are named."""
