"""Public names of Tensor2Tensor's encoders and tokenizer, which are implemented in `bpejit.t2t`."""

from bpejit.t2t import word_tokenizer as tokenizer
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder, TokenCounter
from bpejit.t2t.text_encoders import (
    EOS,
    EOS_ID,
    NUM_RESERVED_TOKENS,
    PAD,
    PAD_ID,
    RESERVED_TOKENS,
    RESERVED_TOKENS_BYTES,
    ByteTextEncoder,
    ClassLabelEncoder,
    OneHotClassLabelEncoder,
    RealEncoder,
    TextEncoder,
    TokenTextEncoder,
    UnencodableTokenError,
    UnlistedTokenError,
    strip_ids,
)

__all__ = [
    "EOS",
    "EOS_ID",
    "NUM_RESERVED_TOKENS",
    "PAD",
    "PAD_ID",
    "RESERVED_TOKENS",
    "RESERVED_TOKENS_BYTES",
    "ByteTextEncoder",
    "ClassLabelEncoder",
    "OneHotClassLabelEncoder",
    "RealEncoder",
    "SubwordTextEncoder",
    "TextEncoder",
    "TokenCounter",
    "TokenTextEncoder",
    "UnencodableTokenError",
    "UnlistedTokenError",
    "strip_ids",
    "tokenizer",
]
