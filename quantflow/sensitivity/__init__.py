"""Which layers stay in fp16: scores, search, policies."""
