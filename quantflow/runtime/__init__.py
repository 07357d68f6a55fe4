"""Running models: one protocol, one adapter a backend."""
