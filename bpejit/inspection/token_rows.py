"""The tokens of a text, one row each, and their display; its pre-tokens, and the steps in which one is merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from bpejit import arguments
from bpejit.arrays import Array, padded_text
from bpejit.encoding.codec import Codec
from bpejit.encoding.kernel_runner import AnySplitter
from bpejit.inspection.visible_text import html_text, plain_text
from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG
from bpejit.model import Model, special_bytes
from bpejit.normalization.symbols import WORD_END
from bpejit.splitting import Pattern, Splitter
from bpejit.splitting.presets import pattern_source
from bpejit.utf8 import encode_utf8

LONGEST_TRACED = 1000
"""Longer pre-tokens, in bytes, are not traced: the time is quadratic in their length."""

SEPARATOR = "\u2502"
"""Separates tokens in plain text."""

HUES = (205, 95, 35, 320, 265, 170)
"""Hues of the backgrounds of consecutive tokens. They are translucent, so they suit light and dark pages."""

_STYLE = "border-radius:3px;padding:1px 0;white-space:pre-wrap;unicode-bidi:isolate;"


_WORD_END = bytes([WORD_END])


class MergeStep(NamedTuple):
    """One merge of a pre-token.

    Parameters
    ----------
    rank : int, optional
        Index of the merge in the list of merges; the id of the result if the model merges by rank. None if the pre-token
        becomes a token without merges (see `bpejit.Model.ignore_merges`).
    result : bytes
        The token that the step makes.
    tokens : tuple of bytes
        The pre-token after the step.
    """

    rank: int | None
    result: bytes
    tokens: tuple[bytes, ...]


class MergeTracer:
    """Follows the merges of pre-tokens in plain Python."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._ranks = None if model.ranked else {pair: rank for rank, pair in enumerate(model.merges)}

    def rank(self, left: bytes, right: bytes) -> int | None:
        """Return the rank at which two tokens merge, or None if they do not."""
        if self._ranks is not None:
            return self._ranks.get((left, right))
        return self._model.ids.get(left + right)

    def symbols(self, pretoken: bytes) -> list[bytes]:
        """Return what a pre-token begins as: bytes, or characters with what stands for those that are unknown."""
        symbols = self._model.symbols
        if symbols is None:
            return _bytes_of(pretoken)
        plain = pretoken.removesuffix(_WORD_END) if symbols.word_end else pretoken
        codec = "utf-8" if symbols.characters else "latin-1"
        found = [character.encode(codec, "surrogateescape") for character in plain.decode(codec, "surrogateescape")]
        if plain != pretoken and found:
            found[-1] += symbols.word_end.encode()
        unknown = None if symbols.unknown is None else self._model.bytes_of(symbols.unknown)
        tokens: list[bytes] = []
        for symbol in found:
            if symbol in self._model.ids:
                tokens.append(symbol)
            elif symbols.byte_ids:
                tokens += _bytes_of(symbol)
            elif unknown is not None and not (symbols.fuses_unknown and tokens[-1:] == [unknown]):
                tokens.append(unknown)
        return tokens

    def steps(self, pretoken: bytes) -> list[MergeStep]:
        """Return the merges of a pre-token in order: at each step the pair of the lowest rank, the leftmost of equals.

        The last step has the tokens that encoding gives. A pre-token of more than `LONGEST_TRACED` bytes has no steps.
        """
        if len(pretoken) > LONGEST_TRACED:
            return []
        tokens = self.symbols(pretoken)
        steps: list[MergeStep] = []
        while len(tokens) > 1:
            ranked = ((self.rank(*pair), at) for at, pair in enumerate(pairwise(tokens)))
            best = min(((rank, at) for rank, at in ranked if rank is not None), default=None)
            if best is None:
                break
            rank, at = best
            tokens[at : at + 2] = [tokens[at] + tokens[at + 1]]
            steps.append(MergeStep(rank, tokens[at], tuple(tokens)))
        whole = self._model.ranked or self._model.ignore_merges
        if whole and len(tokens) > 1 and pretoken in self._model.ids:
            return [MergeStep(None, pretoken, (pretoken,))]
        return steps


def _bytes_of(data: bytes) -> list[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


class TokenRow(NamedTuple):
    """One token of a text.

    Parameters
    ----------
    id : int
    data : bytes
        The bytes of the token.
    start, end : int
        Position in the bytes of the text.
    char_start, char_end : int
        Position in the characters of the text (see `bpejit.encoding.offsets.TokenOffsets`).
    special : bool
    """

    id: int
    data: bytes
    start: int
    end: int
    char_start: int
    char_end: int
    special: bool


def token_rows(codec: Codec, text: str | bytes) -> list[TokenRow]:
    """Return the tokens of a text; special tokens are found, as in `encode`."""
    found, _ = codec.locate(text)
    columns = (found.ids, found.byte_starts, found.byte_ends, found.char_starts, found.char_ends)
    model = codec.model
    special = model.special_vocab
    return [
        TokenRow(number, model.bytes_of(number) or b"", start, end, char_start, char_end, number in special)
        for number, start, end, char_start, char_end in zip(*(column.tolist() for column in columns), strict=True)
    ]


def written(pretoken: bytes, model: Model) -> bytes:
    """Return a pre-token as text, with the suffix of its last symbol in place of the mark."""
    suffix = "" if model.symbols is None else model.symbols.word_end
    return pretoken[:-1] + suffix.encode() if suffix and pretoken.endswith(_WORD_END) else pretoken


def pretokens(codec: Codec, text: str | bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the pre-tokens of a text, after normalization, and whether each is a special token."""
    return _spans(codec.encoder.splitter, encode_utf8(text) if isinstance(text, str) else text)


def _spans(splitter: AnySplitter, data: bytes) -> Iterator[tuple[bytes, bool]]:
    if isinstance(splitter, Splitter):
        prepared, n_bytes = padded_text(data)
        return flagged_spans(prepared, splitter.split(prepared, n_bytes))
    return flagged_spans(*splitter.run(data))


def flagged_spans(text: Array, ends: Array, first: int = 0) -> Iterator[tuple[bytes, bool]]:
    """Yield the spans with some ends, and whether each is a special token."""
    data = text.tobytes()
    for end in ends.tolist():
        stop = end & POSITION_MASK
        yield data[first:stop], bool(end & SPECIAL_FLAG)
        first = stop


Text = TypeVar("Text", str, bytes)


@arguments.explain_wrong_arguments
def split(
    text: Text, pattern: Pattern = "gpt2", *, special_tokens: Sequence[str] = (), unicode: str | None = None
) -> list[Text]:
    """Split a text into pre-tokens, the units that merges never cross.

    Parameters
    ----------
    text : str or bytes
    pattern : str or tuple of str
        The name of a preset (see `bpejit.splitting.PRESETS`), a regular expression, or a sequence of regular expressions.
    special_tokens : list of str
        Texts that are found before the pattern is applied; each is one item of the result.
    unicode : str, optional
        The version of Unicode of the pattern, such as "16.0"; by default that of the installed `regex` package.

    Returns
    -------
    list of str, or of bytes for bytes
        Joined, they are the text.

    Raises
    ------
    ArgumentTypeError, PatternError

    Examples
    --------
    >>> split("it's 2026")
    ['it', "'s", ' 2026']
    """
    given = arguments.as_bytes("text", text)
    specials = arguments.special_tokens("special_tokens", special_tokens)
    version = arguments.optional_string("unicode", unicode)
    source = pattern_source(arguments.pattern("pattern", pattern))
    splitter = Splitter(source, map(special_bytes, specials), unicode=version)
    found: list[Any] = [piece for piece, _ in _spans(splitter, encode_utf8(given) if isinstance(given, str) else given)]
    return [piece.decode("utf-8") for piece in found] if isinstance(given, str) else found


def html_tokens(rows: Iterable[TokenRow], attributes: Callable[[int, TokenRow], str]) -> str:
    """Return tokens as HTML spans, with the attributes that a function returns for the number of a token and its row."""
    parts = []
    for index, row in enumerate(rows):
        parts.append(f"<span {attributes(index, row)}>{html_text(row.data)}</span>")
        if row.data.endswith(b"\n"):
            parts.append("<br>")
    return "".join(parts)


def _colored(index: int, row: TokenRow) -> str:
    """Return attributes for a colored background, and a title with the id and the bytes."""
    color = "hsla(0,0%,50%,.45)" if row.special else f"hsla({HUES[index % len(HUES)]},80%,50%,.3)"
    style = f"{_STYLE}background:{color}" + (";font-weight:bold" if row.special else "")
    return f'style="{style}" title="id {row.id}, bytes {row.data.hex(" ")}"'


def plain_tokens(rows: Iterable[TokenRow], separator: str = SEPARATOR) -> str:
    """Return tokens as text with a separator between them; a line break follows each escaped line feed."""
    return separator.join(plain_text(row.data, separator, breaks=True) for row in rows)


class ShownText:
    """The tokens of a text, as returned by `Tokenizer.show`. Notebooks display it as HTML."""

    def __init__(self, rows: list[TokenRow]) -> None:
        self.rows = rows

    def __repr__(self) -> str:
        return plain_tokens(self.rows)

    def _repr_html_(self) -> str:
        n_bytes = sum(len(row.data) for row in self.rows)
        text = html_tokens(self.rows, _colored)
        body = f'<div dir="auto" style="font-family:monospace;line-height:1.7;overflow-wrap:anywhere">{text}</div>'
        return f"{body}<small>{len(self.rows):,} tokens, {n_bytes:,} bytes</small>"
