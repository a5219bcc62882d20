"""Tokenizer files: one module per format, each with functions that read files into a `bpejit.model.Model` or write one.

To add a format, write `formats/<name>.py` with `read_<name>(path, ...) -> Model` and, if it can be written,
`write_<name>(model, path)`. Readers take everything from the files and guess nothing: what the format can say and bpejit
cannot do exactly is a `TokenizerFormatError` that names the file and the place. Writers go through `bpejit.storage.files`, and
refuse, with the reason, what another tool would read differently. Tests: a round trip over random models, equality of ids
with the package the format belongs to, and each way in which a file can be broken.
"""
