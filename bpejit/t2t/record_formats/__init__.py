"""Formats of files of examples: a module for each, which writes framed records in blocks."""
