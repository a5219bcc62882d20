"""The vocabulary and the merges of `tokenizer.json`, with one token or merge per line, which is readable.

They are most of the file. Kernels write them from arrays in a millisecond or two; strings for all tokens and lines took 40.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain
from json.encoder import encode_basestring

import numpy as np

from bpejit.arrays import Array, ByteStrings
from bpejit.kernels.formats import vocabulary_text as kernels
from bpejit.model import Model
from bpejit.normalization.byte_characters import CHARACTERS, decode_byte_characters
from bpejit.packed_tokens import PackedMerges, pack_tokens

_SURROGATE = re.compile("[\ud800-\udfff]")

_JSON = [encode_basestring(character)[1:-1].encode() for character in CHARACTERS]
"""The character of each byte in a JSON string."""

_FORMS = np.array(
    [int.from_bytes(form, "little") | (int(kernels.TWO_BYTES) if len(form) == 2 else 0) for form in _JSON], dtype=np.uint32
)


def vocabulary_and_merges(model: Model, *, legacy_merges: bool) -> tuple[bytes, bytes]:
    """Return the lines of the vocabulary, in order of id, and those of the merges, without line breaks at the end.

    Parameters
    ----------
    model : Model
    legacy_merges : bool
        Write merges as `"a b"` instead of `["a", "b"]`.
    """
    strings, numbers = pack_tokens(model.tokens)
    quoted = _quote(strings)
    lefts, rights = _indexes(model, strings)
    lengths = np.diff(quoted.starts)
    out = np.empty(int(lengths[lefts].sum() + lengths[rights].sum()) + (kernels.INDENT + 6) * lefts.size, np.uint8)
    merges = out[: kernels.write_merges(quoted.pool, quoted.starts, lefts, rights, legacy_merges, out)].tobytes()

    specials, ids = _quoted_specials(model)
    added = ByteStrings.from_list(specials)
    quoted = ByteStrings(
        np.concatenate([quoted.pool, added.pool]), np.concatenate([quoted.starts, quoted.starts[-1] + added.starts[1:]])
    )
    numbers = np.concatenate([numbers, np.array(ids, np.int64)])
    order = np.argsort(numbers, kind="stable")
    out = np.empty(quoted.pool.size + (kernels.INDENT + kernels.MOST_DIGITS + 4) * order.size, np.uint8)
    vocab = out[: kernels.write_vocabulary(quoted.pool, quoted.starts, order, numbers, out)].tobytes()
    return vocab, merges


def _quote(strings: ByteStrings) -> ByteStrings:
    """Return tokens as JSON strings of GPT-2's byte characters."""
    n_bytes = strings.pool.size + int(np.count_nonzero(_FORMS[strings.pool] & kernels.TWO_BYTES)) + 2 * len(strings)
    pool, starts = np.empty(n_bytes, np.uint8), np.empty(len(strings) + 1, np.int64)
    kernels.quote_tokens(strings.pool, strings.starts, _FORMS, pool, starts)
    return ByteStrings(pool, starts)


def _indexes(model: Model, strings: ByteStrings) -> tuple[Array, Array]:
    """Return the indexes of the tokens of each merge."""
    merges: Sequence[tuple[bytes, bytes]] = model.merges
    if isinstance(merges, PackedMerges) and merges.tokens is strings:
        return merges.lefts.astype(np.int64), merges.rights.astype(np.int64)
    if model.ranked:
        from bpejit.formats.ranked_merges import as_merge_list  # not at the top: it loads kernels

        merges = as_merge_list(model)
    index = {token: number for number, token in enumerate(strings)}
    found = np.fromiter(map(index.__getitem__, chain.from_iterable(merges)), np.int64, 2 * len(merges))
    return found[::2].copy(), found[1::2].copy()


def _quoted_specials(model: Model) -> tuple[list[bytes], list[int]]:
    """Return the special tokens that are not written like an ordinary token, as JSON strings, and their ids."""
    found, ids = [], []
    for text, token_id in model.special_tokens.items():
        try:
            written_alike = model.find(decode_byte_characters(text)) is not None
        except UnicodeEncodeError:
            written_alike = False
        if not written_alike:
            # UTF-8 cannot represent surrogates. They occur only in files for bpejit alone (see `special_token_obstacle`).
            plain = text.isascii() or not _SURROGATE.search(text)
            found.append((encode_basestring(text) if plain else json.dumps(text)).encode())
            ids.append(token_id)
    return found, ids
