"""The cases from public reports, rebuilt as small inputs; each file is one kind of case."""
