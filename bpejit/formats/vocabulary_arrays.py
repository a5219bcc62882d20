"""Vocabularies as arrays: stored in the cache for the readers of folders, and written as lines of `tokenizer.json`.

Parsing and checking JSON with 32,000 tokens takes a tenth of a second; reading a pickled model takes 2 ms. A file of the cache
(see `bpejit.jit.cache`) is identified by a hash of the content that was parsed and of the sources that parse it. Like all files
of the cache it starts with a check of its content, so a damaged one is ignored and written again, and it is not read if others
may have written it. Small vocabularies are not stored.

`tokenizer.json` has one token or merge per line, which is readable, and they are most of the file. They are copied from arrays
in a few milliseconds; strings for all tokens and lines took 40.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Sequence
from itertools import chain
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.arrays import Array, ByteStrings, starts_of
from bpejit.errors import TokenizerFormatError, shorten
from bpejit.formats.packed_vocabulary import StringIndex, are_texts, ends_with
from bpejit.jit import cache, fingerprint
from bpejit.model import Model
from bpejit.normalization.byte_characters import CHARACTERS, decoded_or_none
from bpejit.normalization.symbols import Symbols, unused_texts
from bpejit.packed_tokens import PackedMerges, pack_tokens
from bpejit.splitting.pattern_cache import describe_engine
from bpejit.utf8 import has_surrogates

# ---- the cache

LEAST_TOKENS = 8192
"""Smaller vocabularies are not stored."""

_MODULES = (
    *("folder.py", "huggingface_reading.py", "packed_vocabulary.py", "reading_symbols.py", "settings_beside.py"),
    *("tokenizer_files.py", "vocabulary_arrays.py"),
    *("../arrays.py", "../model.py", "../packed_tokens.py", "../tokenizer_config.py", "../splitting/joining.py"),
    *(f"../normalization/{name}.py" for name in ("byte_characters", "json_fields", "normalizers", "pipeline", "symbols")),
    *(f"../normalization/{name}.py" for name in ("decoders", "pipeline_config", "pretokenizers", "symbol_marks")),
)


def load_stored(content: bytes) -> tuple[Model, dict[str, Any]] | None:
    """Return the model and the notes that are stored for the content of a file, or None."""
    name = _file_name(content)
    data = None if name is None else cache.read(name, cache.ENCODERS, lambda n_bytes: memoryview(np.empty(n_bytes, np.uint8)))  # type: ignore[arg-type]
    found: tuple[Model, dict[str, Any]] | None = None if data is None else pickle.loads(data)
    return found


def store_parsed(content: bytes, model: Model, notes: dict[str, Any]) -> None:
    """Store a model and what its reader needs besides it for the content of a file, if possible."""
    if len(model.tokens) < LEAST_TOKENS or (model.symbols is not None and model.symbols.shared):
        return
    name = _file_name(content)
    if name is None:
        return
    model.sha256  # noqa: B018 - is stored with the model, also where assertions are off
    cache.write(name, pickle.dumps((model, notes), protocol=4), cache.ENCODERS)


def _file_name(content: bytes) -> str | None:
    code = fingerprint.of_modules(Path(__file__).parent, _MODULES)
    if code is None:
        return None
    # The `regex` package limits the versions of Unicode.
    parts = code + fingerprint.of_machine() + describe_engine()
    digest = hashlib.blake2b(parts.encode() + hashlib.sha256(content).digest(), digest_size=16)
    return f"vocabulary-{digest.hexdigest()}.tables"


def every_token(model: Model) -> tuple[ByteStrings, Array]:
    """Return the ordinary tokens, also those that share an id, and their ids."""
    strings, numbers = pack_tokens(model.tokens)
    shared = model.symbols.shared if model.symbols is not None else {}
    if not shared:
        return strings, numbers
    return ByteStrings.from_list([*strings, *shared]), np.append(numbers, [*shared.values()])


# ---- lines of text

_ASCII = 0x80

_FORMS = [encode_basestring(character)[1:-1].encode() for character in CHARACTERS]
"""The character of each byte in a JSON string."""

_INDENT = b" " * 6


def vocabulary_and_merges(model: Model, *, legacy_merges: bool) -> tuple[bytes, bytes]:
    """Return the lines of the vocabulary, in order of id, and those of the merges, without line breaks at the end."""
    strings, numbers = every_token(model)
    texts = _escaped(strings, model.symbols)
    spaced = texts.pool == ord(" ") if legacy_merges else np.zeros(1, np.bool_)
    if spaced.any():
        found = texts[int(np.searchsorted(texts.starts, np.argmax(spaced), side="right")) - 1]
        token = json.loads(b'"%s"' % found)
        raise TokenizerFormatError(
            f"the token {shorten(token)} has a space, which separates the two tokens of a merge in one string; expected "
            "tokens without spaces: write the merges as lists"
        )
    listed: Sequence[tuple[bytes, bytes]] = model.merges
    if model.ranked and model.symbols is None:
        from bpejit.formats.ranked_merges import as_merge_list  # not at the top: it loads kernels

        listed = as_merge_list(model)
    lefts, rights = merge_indexes(listed, strings)
    merges = (
        _lines(texts, b'"', lefts, b" ", rights, b'"') if legacy_merges else _lines(texts, b'["', lefts, b'", "', rights, b'"]')
    )
    specials = _other_texts(model)
    numbers = np.concatenate([numbers, np.array([*specials.values()], np.int64)])
    order = np.argsort(numbers, kind="stable")
    n_digits = 1 + np.searchsorted(10 ** np.arange(1, 19), numbers, side="right")
    digits = ByteStrings(np.frombuffer("".join(map(str, numbers.tolist())).encode(), np.uint8), starts_of(n_digits))
    texts = texts.joined(ByteStrings.from_list([*map(_escape, specials)])).joined(digits)
    return _lines(texts, b'"', order, b'": ', order + numbers.size, b""), merges


def _lines(words: ByteStrings, *parts: bytes | Array) -> bytes:
    """Return lines of the same texts, and of words with these indexes; the last one has no comma and line break."""
    texts = [part for part in parts if isinstance(part, bytes)]
    texts[0] = _INDENT + texts[0]
    texts[-1] += b",\n"
    others = iter(range(len(words), len(words) + len(texts)))
    codes = np.broadcast_arrays(*(next(others) if isinstance(part, bytes) else part for part in parts))
    return words.joined(ByteStrings.from_list(texts)).take(np.stack(codes, axis=1).ravel()).pool[:-2].tobytes()


def _escaped(strings: ByteStrings, symbols: Symbols | None) -> ByteStrings:
    """Return the texts of tokens in a file (see `file_text`) as in JSON strings."""
    symbols = symbols or Symbols(characters=False)
    forms, suffix = list(_FORMS), symbols.word_end
    codes, kept = strings.pool.astype(np.int64), np.ones(strings.pool.size, np.bool_)
    if symbols.characters:
        if not are_texts(strings):
            raise TokenizerFormatError("the vocabulary has tokens that are not UTF-8; expected characters: remove them")
        forms = [_escape(chr(byte)) if byte < _ASCII else bytes([byte]) for byte in range(256)]
        forms[ord(" ")] = _escape(symbols.space or " ")
    elif suffix:
        end = suffix.encode()
        places = strings.starts[1:][ends_with(strings, end)] - len(end)
        codes[places] = len(forms)
        for offset in range(1, len(end)):
            kept[places + offset] = False
    found = ByteStrings.from_list([*forms, _escape(suffix)]).take(codes[kept])
    return ByteStrings(found.pool, found.starts[starts_of(kept)[strings.starts]])


def merge_indexes(merges: Sequence[tuple[bytes, bytes]], strings: ByteStrings) -> tuple[Array, Array]:
    """Return the indexes of the tokens of each merge, int64 each."""
    if isinstance(merges, PackedMerges) and merges.tokens is strings:
        return merges.lefts.astype(np.int64), merges.rights.astype(np.int64)
    sides = merges.sides() if isinstance(merges, PackedMerges) else ByteStrings.from_list([*chain.from_iterable(merges)])
    found = StringIndex(strings).find(sides).astype(np.int64)
    return found[::2].copy(), found[1::2].copy()


def _other_texts(model: Model) -> dict[str, int]:
    """Return the texts that are not written like an ordinary token: special tokens, and those that are only decoded.

    Special tokens of one character are left out of a vocabulary with symbols, of which they would be some.
    """
    if model.symbols is None:
        found = {text: decoded_or_none(text) for text in model.special_tokens}
        ordinary = {text for text, token in found.items() if token is not None and model.find(token) is not None}
        return {text: number for text, number in model.special_tokens.items() if text not in ordinary}
    suffix = model.symbols.word_end
    specials = {number: text for text, number in model.special_tokens.items() if len(text.removesuffix(suffix)) > 1}
    others = {**unused_texts(model.symbols), **specials}
    return {text: number for number, text in others.items() if number not in model.tokens}


def _escape(text: str) -> bytes:
    """Return a text as in a JSON string."""
    # UTF-8 cannot represent surrogates. They occur only in files for bpejit alone (see `special_token_obstacle`).
    return (json.dumps(text) if has_surrogates(text) else encode_basestring(text))[1:-1].encode()
