"""Formats of files of examples, which write framed records in blocks: `base` has their interface, and `registry` lists them."""
