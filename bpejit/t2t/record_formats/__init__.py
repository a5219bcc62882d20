"""Formats of files of examples, which write framed records in blocks: `registry` has their interface, and lists them."""
