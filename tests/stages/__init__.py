"""Tests of the stages and of running them."""
