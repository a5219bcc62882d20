"""Look at tokenizers: the tokens of a text, statistics of a corpus, comparisons and reports.

- A text: `token_rows`, `visible_text`
- What Python and the commands show: `corpus_stats` (statistics), `comparison` (of tokenizers), `tables`
- A corpus: `token_counts`, `text_measures`, `differing_texts`
- A vocabulary: `vocabulary_measures`
- `merge_trace`: the steps of learning merges
- `report_page`, `plots`
"""
