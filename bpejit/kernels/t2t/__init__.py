"""Kernels of Tensor2Tensor's subword tokenizer."""
