"""Look at tokenizers: the tokens of a text, statistics of a corpus, comparisons and reports.

- A text: `token_rows`, `visible_text`
- A corpus: `corpus_stats`, `token_counts`, `text_measures`, `scripts`, `differing_texts`
- A vocabulary: `vocabulary_measures`
- `report_page`, `plots`
"""
