"""Kernels that turn pre-tokens into ids, by the rules in `merge_rules`."""
