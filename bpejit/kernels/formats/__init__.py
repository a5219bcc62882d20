"""Kernels that read and write tokenizer files (`rank_parsing`, `vocabulary_text`)."""
