"""Public names of Tensor2Tensor: encoders, its tokenizer, and functions that generate data, implemented in `bpejit.t2t`."""

from bpejit.t2t.datagen import published_functions as tokenizer  # noqa: F401 - a public name
from bpejit.t2t.datagen.published_functions import (
    generate_files as generate_files,
    get_or_generate_vocab as get_or_generate_vocab,
    shuffle_dataset as shuffle_dataset,
    text2text_generate_encoded as text2text_generate_encoded,
    text2text_txt_iterator as text2text_txt_iterator,
    txt_line_iterator as txt_line_iterator,
)
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder as SubwordTextEncoder, TokenCounter as TokenCounter
from bpejit.t2t.text_encoders import (
    EOS as EOS,
    EOS_ID as EOS_ID,
    NUM_RESERVED_TOKENS as NUM_RESERVED_TOKENS,
    PAD as PAD,
    PAD_ID as PAD_ID,
    RESERVED_TOKENS as RESERVED_TOKENS,
    RESERVED_TOKENS_BYTES as RESERVED_TOKENS_BYTES,
    ByteTextEncoder as ByteTextEncoder,
    ClassLabelEncoder as ClassLabelEncoder,
    OneHotClassLabelEncoder as OneHotClassLabelEncoder,
    RealEncoder as RealEncoder,
    TextEncoder as TextEncoder,
    TokenTextEncoder as TokenTextEncoder,
    UnencodableTokenError as UnencodableTokenError,
    UnlistedTokenError as UnlistedTokenError,
    strip_ids as strip_ids,
)
