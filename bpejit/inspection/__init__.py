"""Look at tokenizers: the tokens of a text, statistics of a corpus, comparisons and reports.

- A text: `token_rows`, `shown_text`, `visible_text`
- A corpus: `corpus_stats`, `token_counts`, `text_measures`, `word_scripts`, `scripts`, `differing_texts`
- A vocabulary: `token_properties`, `suspicious_tokens`, `merge_parts`, `vocabulary_comparison`
- `report_page`, `plots`
"""
