"""The records that stages pass to each other, and how they lie on disk."""
