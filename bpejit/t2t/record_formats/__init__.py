"""Formats of files of examples: a module for each, which writes framed records in blocks.

`tfrecord_format`, `parquet_format` and `jsonl_format`; `registry` lists them.
"""
