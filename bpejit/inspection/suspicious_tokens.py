"""Tokens that are worth a look: never produced, damaged text, very long, private data, control characters."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from bpejit.arrays import Array
from bpejit.encoding.codec import Codec
from bpejit.errors import NAMED_ESCAPES
from bpejit.inspection.token_properties import token_properties

LONG_BYTES = 32
"""Bytes from which a token is very long."""

_PRIVATE = re.compile(
    rb"[\w.+-]+@[\w-]+\.\w{2,}"  # e-mail addresses
    rb"|@(?:gmail|hotmail|yahoo|outlook|qq|163)\b"
    rb"|\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b"  # addresses of machines
    rb"|(?:\+\d{2}|\(\d{3}\) ?)[\d -]{7,}\d"  # telephone numbers
    rb"|\b(?:AKIA|ghp_|sk-|xox[bp]-)\w{4,}"  # keys of services
    rb"|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{16,}\b"  # hashes and keys
    rb"|https?://\S{4,}|\bwww\.\w{3,}",
    re.IGNORECASE,
)

_MOJIBAKE = re.compile(
    "[\u00c2-\u00f4\u0192][\u0080-\u00bf\u20ac\u201a-\u2022\u2026\u2030\u2039\u203a\u0152-\u0178\u02c6\u02dc\u2122]"
)


@dataclass(frozen=True)
class SuspiciousTokens:
    """Ids of suspicious tokens by kind, each in ascending order.

    Parameters
    ----------
    unreachable : int64 [n]
        Never produced: encoding the text of the token gives other tokens.
    mojibake : int64 [n]
        Text in UTF-8 that was decoded in another encoding, or replacement characters.
    long : int64 [n]
        At least `LONG_BYTES` bytes.
    private : int64 [n]
        Like an e-mail or internet address, a telephone number, or a key.
    control : int64 [n]
        With control, bidirectional or other invisible characters.
    """

    unreachable: Array
    mojibake: Array
    long: Array
    private: Array
    control: Array


def find_suspicious_tokens(codec: Codec) -> SuspiciousTokens:
    """Return the suspicious tokens of a vocabulary; special tokens are none."""
    model = codec.model
    properties = token_properties(model)
    texts = {number: token for number, token in sorted(model.tokens.items()) if number not in model.special_vocab}
    mojibake, private, control = [], [], []
    for number, token in texts.items():
        if len(token) >= 5 and _PRIVATE.search(token):
            private.append(number)
        if token.isascii() and token.isalnum():
            continue
        try:
            text = token.decode("utf-8")
        except UnicodeDecodeError:
            continue
        if not text.isprintable() and any(not c.isprintable() and c not in NAMED_ESCAPES for c in text) and len(token) > 1:
            control.append(number)
        if not text.isascii() and _is_mojibake(text):
            mojibake.append(number)
    ids = np.array(list(texts), dtype=np.int64)
    long = ids[properties.lengths[ids] >= LONG_BYTES]
    kinds = (np.array(found, dtype=np.int64) for found in (mojibake, long, private, control))
    return SuspiciousTokens(_find_unreachable_tokens(codec, texts, properties.partial), *kinds)


def _is_mojibake(text: str) -> bool:
    if "\ufffd" in text:
        return True
    if not _MOJIBAKE.search(text):
        return False
    try:
        text.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return False
    return True


def _find_unreachable_tokens(codec: Codec, texts: dict[int, bytes], partial: Array) -> Array:
    """Return the tokens whose text, or for parts of characters whose merges, give other tokens."""
    if not texts:
        return np.zeros(0, dtype=np.int64)
    numbers = np.array(list(texts), dtype=np.int64)
    batch = codec.encode_batch(list(texts.values()), disallowed_special=())
    single = np.diff(batch.starts) == 1
    found = single & (batch.ids[np.minimum(batch.starts[:-1], max(batch.ids.size - 1, 0))] == numbers)
    unknown = np.flatnonzero(~found & partial[numbers])
    if unknown.size:
        with codec.workspace() as workspace:
            merged = codec.encoder.encode_pretokens([texts[number] for number in numbers[unknown].tolist()], workspace)
        found[unknown] = [ids.size == 1 for ids in merged]
    unreachable: Array = numbers[~found]
    return unreachable
