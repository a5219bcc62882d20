"""Public names of Tensor2Tensor's subword tokenizer, which is implemented in `bpejit.t2t`."""

from bpejit.t2t.subword_text_encoder import EOS, EOS_ID, PAD, PAD_ID, RESERVED_TOKENS, SubwordTextEncoder, TokenCounter

__all__ = ["EOS", "EOS_ID", "PAD", "PAD_ID", "RESERVED_TOKENS", "SubwordTextEncoder", "TokenCounter"]
