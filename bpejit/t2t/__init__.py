"""Tensor2Tensor's subword tokenizer: its vocabularies, encoder and file commands. It is not byte-pair encoding.

- Subwords: `word_tokenizer`, `subword_text_encoder`, `vocabulary_building`, `subword_files`; other encoders: `text_encoders`
- Examples: `tfrecords`, `example_arrays`, `record_formats`, `shuffling`; data sets: `datagen`
"""
