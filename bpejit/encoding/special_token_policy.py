"""Which special tokens count in a text, and texts of which only some parts may have them.

A special token is a command to the model, so text that strangers wrote must not be able to make one. `encode` of
`bpejit.Tokenizer` finds them all, as CS336 has it; here are the two ways to say less: tiktoken's two options, and segments
of which each is trusted or not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.encoding.encoder import Encoder, text_to_bytes
from bpejit.encoding.offsets import TokenOffsets, prepared_offsets, token_offsets
from bpejit.encoding.workspace import Workspace
from bpejit.errors import ArgumentTypeError, SpecialTokenError, shorten
from bpejit.model import special_bytes
from bpejit.normalization import PreparedText, Preparer
from bpejit.normalization.alignment import ends_of, widths
from bpejit.splitting import Splitter
from bpejit.splitting.special_finder import StringFinder

SpecialChoice: TypeAlias = "Literal['all'] | Collection[str]"
"""Special tokens by name, or all that there are."""

Segments: TypeAlias = "Iterable[tuple[str | bytes, bool]]"
"""Parts of a text, and whether special tokens are to be found in each."""


def allowed_tokens(
    known: frozenset[str], allowed: SpecialChoice | None, disallowed: SpecialChoice | None, texts: Iterable[str | bytes]
) -> frozenset[str]:
    """Return the special tokens that are to be found in some texts, by tiktoken's rules.

    Parameters
    ----------
    known : frozenset of str
        All special tokens of the tokenizer.
    allowed : "all" or set of str, optional
        Those to be found; none if it is missing. Names that the tokenizer does not have are passed over.
    disallowed : "all" or collection of str, optional
        Those that must not be in the texts; "all", which it is if it is missing, stands for all that are not allowed.
    texts : iterable of str or bytes

    Raises
    ------
    SpecialTokenError
        If a disallowed one is in a text.
    """
    found, banned = _decide(known, _names(allowed, (), "allowed_special"), _names(disallowed, "all", "disallowed_special"))
    for text in texts if banned else ():
        _check(text, banned)
    return found


def _names(choice: SpecialChoice | None, default: SpecialChoice, option: str) -> frozenset[str] | None:
    """Return the tokens that are chosen, or None for all."""
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
    """Return which special tokens are to be found, and which must not be there; None stands for all."""
    allowed = known if allowed is None else allowed
    return known & allowed, known - allowed if disallowed is None else disallowed


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
    """Return the ids of a text of which only some segments may have special tokens, as uint32 [tokens].

    Each trusted segment is searched for special tokens by itself, so none lies in untrusted text or across a border. The
    ordinary text that is left is joined, across borders as well, and encoded as it would be in the whole text: so the ids are
    those of the whole wherever it has no special tokens but those.

    Where a preparation changes text, the segments are prepared as one text, with special tokens found in the trusted ones
    only. What goes with a token, or keeps it from being one (white space, a letter beside it), may lie beyond a border. In
    normalized text a character is trusted if all that it was made of lies in one trusted segment.
    """
    parts = list(_checked(segments))
    if isinstance(encoder.splitter, Preparer):
        return _encode_prepared_segments(encoder, encoder.splitter, parts, workspace)[0]
    return _encode_plain_segments(encoder, encoder.splitter, parts, workspace)


def _encode_plain_segments(
    encoder: Encoder, splitter: Splitter, segments: Iterable[tuple[bytes, bool]], workspace: Workspace
) -> Array:
    ordinary = encoder.splitter_for(frozenset())
    numbers = {special_bytes(text): number for text, number in encoder.model.special_tokens.items()}
    parts: list[Array] = []
    pieces: list[bytes] = []

    def flush() -> None:
        if any(pieces):
            parts.append(encoder.encode(b"".join(pieces), workspace, ordinary))
        pieces.clear()

    for data, trusted in segments:
        start = 0
        for begin, end in splitter.finder.spans(data) if trusted else ():
            pieces.append(data[start:begin])
            flush()
            parts.append(np.array([numbers[data[begin:end]]], dtype=np.uint32))
            start = end
        pieces.append(data[start:])
    flush()
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint32)


def _encode_prepared_segments(
    encoder: Encoder, preparer: Preparer, segments: list[tuple[bytes, bool]], workspace: Workspace
) -> tuple[Array, PreparedText]:
    data = b"".join(text for text, _ in segments)
    ends = ends_of(np.array([len(text) for text, _ in segments], dtype=np.int64))
    # In characters; one that lies on a border is in neither segment.
    places = ends_of(widths(data.decode("utf-8", "surrogateescape")))
    begins = np.searchsorted(places, ends[:-1], side="left")
    stops = np.searchsorted(places, ends[1:], side="right") - 1
    chosen = np.array([trusted for _, trusted in segments], dtype=np.bool_) & (begins < stops)
    return encoder.encode_aligned(data, workspace, preparer, np.stack([begins, stops], axis=1)[chosen])


def locate_segments(encoder: Encoder, segments: Segments, workspace: Workspace) -> tuple[TokenOffsets, Array]:
    """Return what `encode_segments` does with the place of each token, and in which segment it begins, as int64 [tokens]."""
    given = list(segments) if isinstance(segments, Iterable) else segments
    parts = list(_checked(given))
    texts = [arguments.as_bytes("segments", text) for text, _ in given]
    if isinstance(encoder.splitter, Preparer):
        ids, prepared = _encode_prepared_segments(encoder, encoder.splitter, parts, workspace)
        offsets = prepared_offsets(ids, encoder.token_lengths(ids), prepared, texts)
    else:
        ids = _encode_plain_segments(encoder, encoder.splitter, parts, workspace)
        offsets = token_offsets(ids, encoder.token_lengths(ids), texts)
    ends = np.cumsum([len(data) for data, _ in parts], dtype=np.int64)
    return offsets, np.searchsorted(ends, offsets.byte_starts, side="right").astype(np.int64)


def _checked(segments: Segments) -> Iterator[tuple[bytes, bool]]:
    """Yield segments with their texts as bytes.

    What looks like a pair but has no bool is refused: a name, say, that is taken for "trusted" would open the door.
    """
    if not isinstance(segments, Iterable):
        raise arguments.wrong_type("segments", segments, "pairs of a text and True or False", "give [(text, False), ...]")
    for position, segment in enumerate(segments):
        if not (isinstance(segment, (tuple, list)) and len(segment) == 2 and isinstance(segment[1], bool)):
            raise ArgumentTypeError(
                f"segment {position} is {shorten(segment)}; expected a pair of a text and True or False, whether special "
                "tokens are to be found in it: pass [(text, False), ...]"
            )
        text, trusted = segment
        data = arguments.as_bytes(f"segments[{position}][0]", text)
        yield text_to_bytes(data) if isinstance(data, str) else data, trusted
