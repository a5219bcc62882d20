"""Counts of pre-tokens as data of their own: files, merging, spilling to disk, and tab-separated text.

A sorted table of any size is a *stream*: an iterator of `PretokenTable` blocks whose pre-tokens ascend by bytes, within a block
and from one to the next. `table_streams` merges streams, `table_blocks` writes them to files and reads them.
"""
