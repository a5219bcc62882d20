"""Select which special tokens are recognized in a text, or in which segments of a text.

A special token is a command to the model, so untrusted text must not be able to produce one. `encode` of `bpejit.Tokenizer`
recognizes all of them by default, as in CS336. This module implements two ways to recognize fewer: the two options of
tiktoken, and segments that are each trusted or not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, starts_of
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.workspace import Workspace
from bpejit.errors import ArgumentTypeError, SpecialTokenError, shorten
from bpejit.model import special_bytes
from bpejit.splitting import Splitter
from bpejit.splitting.special_token_finder import StringFinder
from bpejit.utf8 import encode_utf8

if TYPE_CHECKING:
    from bpejit.encoding.offsets import TokenOffsets
    from bpejit.normalization.alignment import PreTokenizedText
    from bpejit.normalization.pipeline import TextPipeline

SpecialChoice: TypeAlias = "Literal['all'] | Collection[str]"
"""A collection of special tokens, or all of them."""

Segments: TypeAlias = "Iterable[tuple[str | bytes, bool]]"
"""Segments of a text, each with True if special tokens are recognized in it."""

_NONE: frozenset[str] = frozenset()

_TEXTS_PER_SEARCH = 1 << 10
"""Number of texts that are joined to search them for disallowed special tokens."""


def allowed_tokens(
    known: frozenset[str], allowed: SpecialChoice | None, disallowed: SpecialChoice | None, texts: Iterable[str | bytes]
) -> frozenset[str]:
    """Return the special tokens to recognize in texts, by tiktoken's rules.

    Parameters
    ----------
    known : frozenset of str
        All special tokens of the tokenizer.
    allowed : "all" or set of str, optional
        The special tokens to recognize; none by default. Unknown names are ignored.
    disallowed : "all" or collection of str, optional
        The special tokens that must not occur in the texts; "all", the default, means all that are not allowed.
    texts : iterable of str or bytes

    Raises
    ------
    SpecialTokenError
        If a text contains a disallowed special token.
    """
    if allowed is None and type(disallowed) is tuple and not disallowed:
        return _NONE  # `encode_ordinary`, for which the steps below would take as long as encoding a sentence
    found, banned = _decide(known, _names(allowed, (), "allowed_special"), _names(disallowed, "all", "disallowed_special"))
    if banned:
        _check_all(list(texts), banned)
    return found


def _names(choice: SpecialChoice | None, default: SpecialChoice, option: str) -> frozenset[str] | None:
    """Return the chosen tokens, or None for all."""
    choice = default if choice is None else choice
    if isinstance(choice, str):
        if choice != "all":
            shown = shorten(choice)
            raise ArgumentTypeError(f"{option} is {shown}; expected 'all' or a set of special tokens: pass {{{shown}}}")
        return None
    try:
        names = frozenset(choice)
    except TypeError:
        names = frozenset({None})  # type: ignore[arg-type]  # refused below
    if not all(isinstance(name, str) for name in names):
        raise arguments.wrong_type(option, choice, "'all' or a set of special tokens, each a str", "give such a set")
    return names


@lru_cache(maxsize=64)
def _decide(
    known: frozenset[str], allowed: frozenset[str] | None, disallowed: frozenset[str] | None
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the special tokens to recognize, and those that must not occur; None means all."""
    allowed = known if allowed is None else allowed
    return known & allowed, known - allowed if disallowed is None else disallowed


def _check_all(texts: list[str | bytes], banned: frozenset[str]) -> None:
    """Raise SpecialTokenError if a text contains a token of `banned`."""
    for start in range(0, len(texts), _TEXTS_PER_SEARCH):
        some = texts[start : start + _TEXTS_PER_SEARCH]
        # Joining texts can form further tokens, but hides none. One search takes a tenth of the time of many short ones.
        if len(some) > 1 and set(map(type, some)) == {str}:
            joined = "".join(some)  # type: ignore[arg-type]
            if next(_searcher(banned, True).spans(joined), None) is None:
                continue
        for text in some:
            _check(text, banned)


def _check(text: str | bytes, banned: frozenset[str]) -> None:
    span = next(_searcher(banned, isinstance(text, str)).spans(text), None)
    if span is None:
        return
    match = text[slice(*span)]
    token = match.decode("utf-8", "surrogateescape") if isinstance(match, bytes) else match
    unit = "byte" if isinstance(match, bytes) else "character"
    shown = shorten(token)
    raise SpecialTokenError(
        f"the text has the special token {shown} at {unit} {span[0]}; expected text without it: "
        f"pass allowed_special={{{shown}}} to have it encoded as a special token, disallowed_special=() to have such text "
        "encoded as ordinary text, or remove it from the text"
    )


@lru_cache(maxsize=64)
def _searcher(tokens: frozenset[str], in_str: bool) -> StringFinder[Any]:
    return StringFinder(tokens) if in_str else StringFinder(map(special_bytes, tokens))


def encode_segments(encoder: Encoder, segments: Segments, workspace: Workspace) -> Array:
    """Return the ids of a text in which only some segments may contain special tokens, as uint32 [tokens].

    Each trusted segment is searched for special tokens separately, so none is found in untrusted text or across a boundary.
    The remaining ordinary text is joined, across boundaries as well, and encoded as in the whole text: the ids are those of
    the whole text if it contains no other special tokens.

    If a pipeline changes text, the segments are prepared as one text, with special tokens recognized in the trusted ones only.
    What a token absorbs, or what prevents it from being one (white space, an adjacent letter), may lie beyond a boundary. In
    normalized text a character is trusted if all characters that it comes from are in one trusted segment.
    """
    return _encode(encoder, list(_checked(segments)), workspace)[0]


def _encode(
    encoder: Encoder, segments: list[tuple[bytes, bool]], workspace: Workspace
) -> tuple[Array, PreTokenizedText | None]:
    if isinstance(encoder.splitter, Splitter):
        return _encode_plain_segments(encoder, encoder.splitter, segments, workspace), None
    return _encode_pipeline_segments(encoder, encoder.splitter, segments, workspace)


def _encode_plain_segments(
    encoder: Encoder, splitter: Splitter, segments: Iterable[tuple[bytes, bool]], workspace: Workspace
) -> Array:
    ordinary = encoder.splitter_for(frozenset())
    numbers = {special_bytes(text): number for text, number in encoder.model.special_tokens.items()}
    runs: list[tuple[list[int], list[bytes]]] = [([], [])]  # a special token, and the ordinary text after it in pieces
    for data, trusted in segments:
        start = 0
        for begin, end in splitter.finder.spans(data) if trusted else ():
            runs[-1][1].append(data[start:begin])
            runs.append(([numbers[data[begin:end]]], []))
            start = end
        runs[-1][1].append(data[start:])
    parts: list[Any] = []
    for special, pieces in runs:
        parts += [special, encoder.encode(b"".join(pieces), workspace, ordinary) if any(pieces) else []]
    return np.concatenate(parts).astype(np.uint32)


def _encode_pipeline_segments(
    encoder: Encoder, pipeline: TextPipeline, segments: list[tuple[bytes, bool]], workspace: Workspace
) -> tuple[Array, PreTokenizedText]:
    from bpejit.utf8 import widths  # not at the top: loading does not need it

    data = b"".join(text for text, _ in segments)
    ends = starts_of(np.array([len(text) for text, _ in segments], np.int64))
    # In characters; one that spans a boundary is in neither segment.
    boundaries = starts_of(widths(data.decode("utf-8", "surrogateescape")))
    begins = np.searchsorted(boundaries, ends[:-1], side="left")
    stops = np.searchsorted(boundaries, ends[1:], side="right") - 1
    chosen = np.array([trusted for _, trusted in segments], np.bool_) & (begins < stops)
    return encoder.encode_aligned(data, workspace, pipeline, np.stack([begins, stops], axis=1)[chosen])


def locate_segments(encoder: Encoder, segments: Segments, workspace: Workspace) -> tuple[TokenOffsets, Array]:
    """Return the ids of `encode_segments` with their offsets, and the segment in which each token starts, as int64 [tokens]."""
    from bpejit.encoding.offsets import token_offsets

    given = list(segments) if arguments.is_iterable(segments) else segments
    parts = list(_checked(given))
    texts = [arguments.as_bytes("segments", text) for text, _ in given]
    ids, prepared = _encode(encoder, parts, workspace)
    offsets = token_offsets(ids, encoder.lengths_in(ids, prepared), texts, prepared)
    ends = np.cumsum([len(data) for data, _ in parts], dtype=np.int64)
    return offsets, np.searchsorted(ends, offsets.byte_starts, side="right").astype(np.int64)


def _checked(segments: Segments) -> Iterator[tuple[bytes, bool]]:
    """Yield segments with their texts as bytes.

    A pair whose second element is not a bool is an error: a string taken for True would make untrusted text trusted.
    """
    if not arguments.is_iterable(segments):
        raise arguments.wrong_type("segments", segments, "pairs of a text and True or False", "give [(text, False), ...]")
    for position, segment in enumerate(segments):
        if not (isinstance(segment, (tuple, list)) and len(segment) == 2 and isinstance(segment[1], bool)):
            raise ArgumentTypeError(
                f"segment {position} is {shorten(segment)}; expected a pair of a text and True or False, whether special "
                "tokens are to be found in it: pass [(text, False), ...]"
            )
        text, trusted = segment
        data = arguments.as_bytes(f"segments[{position}][0]", text)
        yield encode_utf8(data) if isinstance(data, str) else data, trusted
