"""Training: count the pre-tokens of a corpus, then learn merges from the counts."""
