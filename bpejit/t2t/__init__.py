"""Tensor2Tensor's subword tokenizer: its vocabularies, encoder and file commands. It is not byte-pair encoding."""
