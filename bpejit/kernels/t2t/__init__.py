"""Kernels of Tensor2Tensor's subword tokenizer, of records, and of packing (`example_packing`)."""
