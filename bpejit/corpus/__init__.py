"""Input: the sources of a corpus, and its division into chunks for parallel work.

`sources` resolves the inputs that a user names (files, folders, globs, URLs, standard input, iterators) to a list of sources.
`chunks` divides them into chunks: ranges of plain text at positions where a cut does not change the result, and the records of
other formats, each of which has a module that `registry` lists. A worker turns a chunk into a block of text (`blocks`).

- What an input is: `contents`, `json_heads`, `input_folders`, `input_options`, `fingerprints`, `sizes`; `shared_paths`
- Reading: `input_streams`, `lines`, `texts`, `json_lines` with `json_parsing`, `field_names`, `columns`, `parquet`, `arrow`
- Dividing: `units`, `chunk_reader`, `sampling`; options: `reading_options`
- Columns that pass through: `column_planning`, `kept_columns`
"""
