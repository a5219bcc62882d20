"""Token files: one module per format, each with a writer that streams and a reader that checks.

To add a format, write `tokenfiles/<name>.py` with a writer class like `flat.TokenFileWriter` (a context manager with
`write(ids, n_bytes=...)`, whose files appear only when they are complete) and an `open_...` function that maps or streams
the ids. Writers refuse ids that their dtype cannot hold before anything is written; readers check length, dtype and
tokenizer, and ask where the file does not say. Everything on disk is little-endian. Tests: a round trip, the file read with
the code of the tool it is for, a full disk, and each way in which a file can be broken.
"""
