"""Kernels that learn merges; `merge_expansion` gives the bytes of the tokens."""
