"""Kernels that turn pre-tokens into ids, and ids into bytes."""
