"""What chip and compiler accept: chips, op table, parser renames, and the linter of the dialect."""
