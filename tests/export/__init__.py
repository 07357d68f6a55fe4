"""Tests of stage 4's library."""
