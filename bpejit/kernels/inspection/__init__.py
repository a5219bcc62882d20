"""Kernels that count tokens, characters and words (`amounts`)."""
