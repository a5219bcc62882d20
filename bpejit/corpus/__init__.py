"""Input: the sources of a corpus, and its division into chunks for parallel work.

`sources` resolves the inputs that a user names (files, folders, globs, URLs, standard input, iterators) to a list of sources.
`chunks` divides them into chunks: ranges of plain text at positions where a cut does not change the result, and the records of
other formats. A worker turns a chunk into a block of text (`blocks`).

- What an input is: `input_paths`, `contents`, `fingerprints`; options: `reading_options`
- Formats: `base` has their interface, and `registry` lists them: `json_lines`, `arrow_inputs`
- Reading: `input_streams`; `columns`, and `kept_columns` for columns that pass through
- Dividing: `units`, which also takes samples
"""
