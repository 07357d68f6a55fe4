"""Stage 4: the deploy model for atc, its QDQ twin, and the proof that both compute the same."""
