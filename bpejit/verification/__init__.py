"""Comparisons with other tools: equality of ids, and which tools can read a file."""
