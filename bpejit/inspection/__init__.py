"""Look at tokenizers: the tokens of a text, statistics of a corpus, comparisons and reports."""
