"""The stages, thin: read artifacts, call the library, write artifacts."""
