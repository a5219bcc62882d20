"""Kernels that turn ids into bytes."""
