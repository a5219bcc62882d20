"""Kernels that read tokenizer files (`rank_parsing`, `merge_parsing`)."""
