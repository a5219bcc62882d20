"""Kernels that count pre-tokens: `text_counting`, the hash table of distinct ones (`interning`), and sorted tables."""
