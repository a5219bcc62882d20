"""Kernels that counting, encoding and the subword tokenizer share: characters, keys, interning."""
