"""What engines for constrained decoding need of a tokenizer: the bytes of all tokens, and the ids of parts of a text."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bpejit.encoding.codec import Codec
from bpejit.errors import SpecialTokenError, UnsupportedError, shorten
from bpejit.model import special_bytes

SPECIAL_MARK = b"\xff"
"""Stands before the text of a special token in the list of tokens, so that no text can become it. UTF-8 does not have it."""

_BYTES_OF_UTF8 = (*range(0xC0), *range(0xC2, 0xF5))

_BEFORE = "\x02"
"""A character that no merge joins with others: text after it has no inserted space."""


def bytes_of_ids(codec: Codec, *, special_mark: bytes = b"") -> list[bytes]:
    """Return the bytes of each id; see `Tokenizer.token_bytes`."""
    model, decoder = codec.model, codec.decoder
    if model.symbols is not None and model.symbols.word_end:
        raise UnsupportedError(
            f"the tokens of this tokenizer end words by {shorten(model.symbols.word_end)}, so the bytes of ids depend on those "
            "after them; expected a tokenizer whose text is the bytes of its tokens: use `id_to_token`"
        )
    used = {*model.tokens, *model.unused_tokens, *model.special_tokens.values()}
    ids = np.array(sorted(used))
    data = decoder.decode(ids)
    ends = np.cumsum(decoder.token_lengths(ids)).tolist()
    tokens = [b""] * model.vocab_size
    begin = 0
    for number, end in zip(ids.tolist(), ends, strict=True):
        tokens[number] = data[begin:end]
        begin = end
    for text in named_tokens(codec):
        tokens[model.special_tokens[text]] = special_mark + special_bytes(text)
    return tokens


def named_tokens(codec: Codec) -> frozenset[str]:
    """Return the added tokens that are not part of a text, but have names in grammars.

    These are the special ones, which decoding may skip, and those of their form, such as `<tool_call>`.
    """
    specials = codec.model.special_tokens
    are_special = codec.decoder.is_special(np.array([*specials.values()], np.int64))
    return frozenset(
        text
        for text, is_special in zip(specials, are_special.tolist(), strict=True)
        if is_special or (text.startswith("<") and text.endswith(">"))
    )


class GrammarTokenizer:
    """The attributes and the call that the tokenizers of llguidance are made of.

    Parameters
    ----------
    codec : Codec
        Encodes and decodes; shared with the tokenizer.
    eos_token : str, optional
        The special token that ends a text; by default that of the tokenizer's settings, or `<|endoftext|>`.

    Attributes
    ----------
    tokens : list of bytes [vocabulary size]
        Special tokens begin with `SPECIAL_MARK`; unused ids are empty.
    special_token_ids : list of int
    eos_token_id, bos_token_id : int
        `bos_token_id` is None if the tokenizer has no such token.

    Raises
    ------
    SpecialTokenError
        If the end of a text is not known, or not a special token.
    UnsupportedError
        If the text of ids is not the bytes of their tokens, a byte has no token, or text becomes other text before it is
        encoded.
    """

    def __init__(self, codec: Codec, *, eos_token: str | None = None) -> None:
        specials, config = codec.model.special_tokens, codec.model.config
        end = eos_token or config.eos_token or "<|endoftext|>"
        if end not in specials:
            raise SpecialTokenError(
                f"the token that ends a text is {shorten(end)}, which is not a special token of the tokenizer; expected one of "
                f"{shorten(list(specials))}: pass it as `eos_token`"
            )
        self._codec = codec
        self._found = specials.keys() - named_tokens(codec)
        self.tokens = bytes_of_ids(codec, special_mark=SPECIAL_MARK)
        self.special_token_ids = [number for number, token in enumerate(self.tokens) if token.startswith(SPECIAL_MARK)]
        self.eos_token_id = specials[end]
        self.bos_token_id = specials.get(config.bos_token or "")
        missing = [byte for byte in _BYTES_OF_UTF8 if bytes([byte]) not in self._numbers]
        if missing:
            raise UnsupportedError(
                f"this tokenizer has no token for {len(missing)} of the bytes of UTF-8, such as {missing[0]:#04x}; expected "
                "one for each, so that every text can be written: use another tokenizer"
            )
        before = self._join(self._encode(_BEFORE))
        self._inserted = before.removesuffix(_BEFORE.encode())
        if self._inserted not in (b"", b" ") or before == self._inserted:
            raise UnsupportedError(
                f"this tokenizer encodes {shorten(_BEFORE)} as {shorten(before)}; expected one that keeps the text, but for "
                "a space at its start: use its own package with the grammar engine"
            )

    def __call__(self, text: str | bytes) -> list[int]:
        """Return the ids of a part of a text, as it continues: no space is inserted before it, and special tokens are text.

        Where the ids of the tokenizer stand for other bytes, as after normalization, the longest tokens are taken.
        """
        data = text.encode() if isinstance(text, str) else bytes(text)
        before = _BEFORE.encode() if self._inserted else b""
        ids = self._encode(before + data)
        skipped = self._inserted + before
        while skipped and ids and skipped.startswith(self.tokens[ids[0]]):
            skipped = skipped.removeprefix(self.tokens[ids[0]])
            del ids[0]
        if skipped or self._join(ids) != data:
            return self._longest_tokens(data)
        return ids

    def _join(self, ids: list[int]) -> bytes:
        return b"".join(self.tokens[number] for number in ids)

    def _encode(self, text: str | bytes) -> list[int]:
        return self._codec.encode_list(text, self._found, ())

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        return {token: number for number, token in enumerate(self.tokens) if not token.startswith(SPECIAL_MARK)}

    def _longest_tokens(self, data: bytes) -> list[int]:
        ids: list[int] = []
        longest = max(map(len, self._numbers))
        while data:
            size = longest
            while data[:size] not in self._numbers:
                size -= 1
            ids.append(self._numbers[data[:size]])
            data = data[size:]
        return ids
