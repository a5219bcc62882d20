"""Kernels that learn merges."""
