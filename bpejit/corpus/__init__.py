"""Input: the sources of a corpus, and its division into chunks for parallel work.

`sources` resolves the inputs that a user names (files, globs, standard input) to a list of sources. `chunks` divides sources at
positions where a cut does not change the result. A new kind of input, such as JSON lines, gets a module of its own here.
"""
