"""SentencePiece's `.model`: a message of protobuf with the pieces, their scores and types, and the settings of the model.

Two adjacent pieces merge if the result is a piece, the one with the highest score first, so the model is ranked. Other types of
pieces: user-defined symbols are special tokens that are found in a text, before and after normalization; control symbols and
the unknown piece are special tokens that no text becomes; unused pieces are merged, and divided again at the end. Fields that
do not change ids, decoding or offsets are ignored.
"""

from __future__ import annotations

import base64
import struct
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bpejit.arrays import ByteStrings
from bpejit.errors import TokenizerFormatError, shorten
from bpejit.formats.base import Given, TokenizerFormat
from bpejit.formats.folder import TOKENIZER_FILE
from bpejit.formats.tokenizer_files import naming, read_head, read_tokenizer_file
from bpejit.model import Model
from bpejit.normalization.json_fields import canonical
from bpejit.normalization.pipeline_config import PipelineConfig, TokenFlags
from bpejit.normalization.spacing import SPACE
from bpejit.normalization.symbols import Symbols, byte_text
from bpejit.splitting.joining import joining_pattern

if TYPE_CHECKING:
    from typing_extensions import Unpack

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

_KINDS = {1: "Unigram", 2: "BPE", 3: "word", 4: "character"}

_LONGEST_PIECE = 7999
"""Bytes of the longest piece that SentencePiece accepts."""

_IN_TEXT = (NORMAL, USER_DEFINED, UNUSED)

_BYTES = {*map(byte_text, range(256))}

_OTHER = "encode with `sentencepiece`"

_MOST_BITS = 63
"""The largest shift of seven bits in a number of variable length."""


class Piece(NamedTuple):
    """A piece of a model; its id is its position."""

    text: str
    score: int
    kind: int


class SentencePieceFormat(TokenizerFormat):
    """SentencePiece's models of type BPE."""

    name = "sentencepiece"
    expected = "SentencePiece's `NAME.model`"
    suffixes = (".model",)

    def locate(self, file: Path) -> Path | None:  # noqa: ARG002
        """Return None: other tools use the suffix too, so files are recognized by their content."""
        return None

    def find(self, folder: Path) -> list[Path]:
        """Return the models in a folder."""
        if (folder / TOKENIZER_FILE).exists():
            return []  # of the same model; transformers reads it too
        return [file for file in super().find(folder) if file.is_file() and self.recognizes(read_head(file), None)]

    def recognizes(self, head: bytes, content: Any) -> bool:  # noqa: ARG002
        """Return True if a file begins with a piece: its text, and a score or a type."""
        return len(head) > 4 and head[0] == head[2] == 0x0A and head[4 + head[3] : 5 + head[3]] in (b"\x15", b"\x18")

    def read(self, path: Path, **given: Unpack[Given]) -> Model:  # noqa: ARG002
        """Return the model; it is the same for every version of Unicode."""
        data = read_tokenizer_file(path)
        with naming(path):
            return read_model(data)


def read_model(data: bytes) -> Model:
    """Return the model in the content of a file.

    Raises
    ------
    TokenizerFormatError
        If it is broken, or not BPE, or bpejit cannot reproduce it exactly.
    """
    from bpejit.normalization.pipeline import TextPipeline  # not at the top: it takes 30 ms

    top = _fields(data, {1: 2, 2: 2, 3: 2, 5: 2})
    # Parts of a message that occurs several times are merged, as protobuf does.
    trainer = _fields(b"".join(top[2]), {3: 0, 24: 0, 35: 0, 44: 2})
    normalizer = _fields(b"".join(top[3]), {2: 2, 3: 0, 4: 0, 5: 0})
    if _last(trainer, 3, 1) != 2:
        kind = _KINDS.get(_last(trainer, 3, 1), "unknown")
        raise _refused(f"is a SentencePiece model of the kind {kind}, not BPE", _OTHER)
    if any(_fields(one, {2: 2})[2] for one in top[5]) or (_last(trainer, 24, 0) and _last(normalizer, 3, 1)):
        raise _refused("has a denormalizer, or appends a space to each text (treat_whitespace_as_suffix)", _OTHER)
    settings = {"add_dummy_prefix": bool(_last(normalizer, 3, 1)), "remove_extra_whitespaces": bool(_last(normalizer, 4, 1))}
    escapes, has_fallback = bool(_last(normalizer, 5, 1)), bool(_last(trainer, 35, 0))
    pieces = _read_pieces(top[1], has_fallback)
    kinds = {kind: {n: piece.text for n, piece in enumerate(pieces) if piece.kind == kind} for kind in range(1, 7)}
    # A space in a piece never occurs in a text in which spaces are replaced. If `▁` is unknown, it stays, since it has other
    # bytes than a space.
    dead = {n: piece.text for n, piece in enumerate(pieces) if escapes and " " in piece.text and piece.kind in _IN_TEXT}
    space = " " if SPACE in {**kinds[NORMAL], **kinds[USER_DEFINED]}.values() else SPACE
    spaced = {n: piece.text.replace(SPACE, space) if escapes else piece.text for n, piece in enumerate(pieces)}
    tokens = {n: spaced[n].encode() for n in kinds[NORMAL] if n not in dead}
    merged = {n for n in (*tokens, *kinds[UNUSED]) if len(spaced[n]) > 1 and n not in dead}
    found = {spaced[n]: n for n in kinds[USER_DEFINED] if n not in dead}
    others = {text: n for n, text in (*kinds[UNKNOWN].items(), *kinds[CONTROL].items())}
    # An unknown token would not tell which characters of other tokens it stands for.
    apart = {*"".join(spaced[n] for n in merged)} - {spaced[n] for n in (*kinds[NORMAL], *kinds[USER_DEFINED])}
    if not tokens or found.keys() & others.keys() or (apart and not has_fallback):
        raise _refused("has pieces with characters that are no pieces, special pieces that are alike, or no others", _OTHER)
    unknown = next(iter(kinds[UNKNOWN]), None)
    bytes_by_text = {text: n for n, text in kinds[BYTE].items()}
    symbols = Symbols(
        byte_ids=tuple(bytes_by_text[byte_text(byte)] for byte in range(256)) if has_fallback else (),
        unknown=None if has_fallback else unknown,
        fuses_unknown=not has_fallback,
        space=SPACE if escapes and space == " " else "",
        unused={n: text.encode() for n, text in sorted({**dead, **kinds[UNUSED]}.items())},
        order=tuple(_order(merged, pieces, spaced)),
    )
    steps = {
        "type": "SentencePiece",
        "precompiled_charsmap": base64.b64encode(_last(normalizer, 2, b"")).decode(),
        "user_defined_symbols": [*kinds[USER_DEFINED].values()],
        "space": space if escapes else "",
        **settings,
    }
    decoder = {
        "type": "SentencePiece",
        "control_symbols": [*kinds[CONTROL].values()],
        "unk_piece": next(iter(kinds[UNKNOWN].values()), None),
        "unk_surface": _text(_last(trainer, 44, " \u2047 ".encode())),
        **settings,
    }
    config = PipelineConfig(canonical(steps))
    flags = dict.fromkeys(found, TokenFlags(special=False, normalized=True))
    made = ByteStrings.from_list([spaced[n].encode() for n in sorted(merged)])
    pattern = joining_pattern(made, None if has_fallback else {spaced[n] for n in tokens if len(spaced[n]) == 1})
    pipeline = TextPipeline(config, flags, symbols=symbols, pattern=pattern)  # raises if the map is broken
    return Model(
        tokens=tokens,
        merges=[],
        special_tokens={**others, **found},
        pattern=pipeline.pattern or pattern,
        ranked=True,
        pipeline=config,
        token_flags=flags,
        symbols=symbols,
        decoder=canonical(decoder),
    )


def _read_pieces(messages: list[bytes], has_fallback: bool) -> list[Piece]:
    """Return the pieces; raise for what SentencePiece refuses."""
    pieces: list[Piece] = []
    seen: set[str] = set()
    for message in messages:
        fields = _fields(message, {1: 2, 2: 5, 3: 0})
        # As in SentencePiece, scores are compared as integers that have the order of the numbers.
        (score,) = struct.unpack("<i", _last(fields, 2, bytes(4)))
        text, kind = _text(_last(fields, 1, b"")), _last(fields, 3, NORMAL)
        if text == "\0" and has_fallback:
            kind = UNUSED
        elif not text or len(text.encode()) > _LONGEST_PIECE or text in seen or "\0" in text:
            raise _refused(f"has the piece {shorten(text)} (id {len(pieces)}) twice, or it is empty, too long, or has a zero")
        seen.add(text)
        if not NORMAL <= kind <= BYTE or (kind == BYTE and text not in _BYTES):
            raise _refused(f"has the piece {shorten(text)} (id {len(pieces)}) of the type {kind}")
        pieces.append(Piece(text, score ^ 0x7FFFFFFF if score < 0 else score, kind))
    kinds = [piece.kind for piece in pieces]
    if kinds.count(BYTE) != 256 * has_fallback or kinds.count(UNKNOWN) not in ((0, 1) if has_fallback else (1,)):
        raise _refused(f"has {kinds.count(BYTE)} pieces of bytes and {kinds.count(UNKNOWN)} that are unknown")
    return pieces


def _order(merged: set[int], pieces: list[Piece], spaced: dict[int, str]) -> list[int]:
    """Return the ids of pieces that merge, the highest scores first; none if these are all ordinary, and in this order.

    Of pieces with one score, the leftmost in a text merges first. If all of them are runs of one character each, such as the
    runs of spaces of Llama 2, and all runs of these characters have this score, the longest first is the same: of the runs in a
    text, the leftmost that can grow is the only one that has grown, and its first two parts that merge are the longest.
    """
    order = sorted(merged, key=lambda n: (-pieces[n].score, -len(spaced[n]), n))
    runs = {(spaced[n][0], pieces[n].score) for n in merged if len({*spaced[n]}) == 1}
    scores_of = Counter(character for character, _ in runs)
    for left, right in pairwise(order):
        if pieces[left].score == pieces[right].score:
            for text in (spaced[left], spaced[right]):
                if len({*text}) > 1 or scores_of[text[0]] > 1:
                    both = f"{shorten(pieces[left].text)} and {shorten(pieces[right].text)}"
                    raise _refused(f"gives the pieces {both} one score, so that their order depends on the text", _OTHER)
    return [] if order == sorted(order) and all(pieces[n].kind == NORMAL for n in order) else order


# ---- protobuf


def _fields(data: bytes, known: dict[int, int]) -> dict[int, list[Any]]:
    """Return the values of the known fields of a message, by number; integers for wire type 0, bytes for the others.

    `known` has the wire type of each field: 0 for a number of variable length, 2 for bytes with a length, 5 for four bytes.
    """
    found: dict[int, list[Any]] = {number: [] for number in known}
    at = 0
    try:
        while at < len(data):
            tag, at = _varint(data, at)
            number, wire = tag >> 3, tag & 7
            value, at = _varint(data, at) if wire in (0, 2) else ({1: 8, 5: 4}[wire], at)
            if wire:
                at += value
            if not number or number >> 29 or known.get(number, wire) != wire or at > len(data):
                raise IndexError
            if number in known:
                found[number].append(data[at - value : at] if wire else value)
    except LookupError as cause:
        raise _refused(f"is broken or truncated: a message of {len(data)} bytes cannot be read at {at}") from cause
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and the position after it."""
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if shift > _MOST_BITS:
            raise IndexError
    return value | data[at] << shift, at + 1


def _last(fields: dict[int, list[Any]], number: int, default: Any) -> Any:
    """Return the last value of a field, which counts."""
    return fields[number][-1] if fields[number] else default


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as cause:
        raise _refused(f"has a text that is not UTF-8: {cause}") from cause


def _refused(problem: str, action: str = "get the model again") -> TokenizerFormatError:
    return TokenizerFormatError(f"{problem}: {action}")
