"""Comparisons with other tools: ids of the same texts, and which tools read a file."""
