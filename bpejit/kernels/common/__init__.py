"""Kernels shared by counting, encoding and the subword tokenizer: characters, keys, interning."""
