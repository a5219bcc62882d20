"""Documents in: where the bytes of a corpus come from, and where they may be cut for parallel work.

`sources` turns what the user names (files, globs, standard input) into a list of sources. `chunks` divides sources into
chunks at places where a cut changes nothing. A new kind of input, such as JSON lines, belongs here in a file of its own.
"""
