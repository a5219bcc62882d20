"""Kernels that divide text into pre-tokens."""
