"""Kernels shared by several stages: characters, keys, lists of integers."""
