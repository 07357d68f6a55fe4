"""Tests of the chip and compiler facts, and of the linter."""
