"""Decoders of Hugging Face tokenizers: how the tokens of ids become text.

Byte-level tokens are joined, and so are those of most other vocabularies, where `▁` has become a space and a token such as
`<0x41>` its byte when the file was read; what is left to do for them is in `Joining`. All other decoders, and a missing one,
which puts a space between tokens, run step by step (`Steps`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Literal, TypeAlias

from bpejit.normalization.byte_characters import decoded_or_none
from bpejit.normalization.json_fields import Fields, components, read_byte_level, read_metaspace, refused, unsupported
from bpejit.normalization.normalizers import read_pattern
from bpejit.normalization.spacing import SPACE

SUPPORTED = "ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, BPEDecoder, WordPiece, Sequence"

Step: TypeAlias = Callable[[list[str]], list[str]]
"""Changes the texts of tokens."""

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


_ESCAPED = re.compile("[\udc80-\udcff]")
"""Bytes that are not UTF-8."""


@dataclass(frozen=True)
class Steps:
    """A decoder that runs step by step on the texts that tokens have in files.

    Parameters
    ----------
    steps : tuple of Step
    separator : str
        What is put between the results.
    """

    steps: tuple[Step, ...]
    separator: str = ""

    def __call__(self, tokens: Sequence[str]) -> str:
        """Return the text of tokens."""
        found = list(tokens)
        for step in self.steps:
            found = step(found)
        return self.separator.join(found)


@dataclass(frozen=True)
class Joining:
    """A decoder that joins the bytes of tokens.

    Parameters
    ----------
    strips : {"", "space", "token"}
        What is removed at the start of the text: nothing, a space, or all spaces of the first token.
    byte_runs : Steps, optional
        Gives the text of tokens of which a run of bytes of fallback is not UTF-8.
    """

    strips: Literal["", "space", "token"] = ""
    byte_runs: Steps | None = None


def read_decoder(value: Any, *, characters: bool = False, space: str = "", fallback: bool = False) -> Joining | Steps:
    """Return the decoder of a `tokenizer.json`.

    Parameters
    ----------
    value : object
        The JSON value; None for no decoder.
    characters : bool
        Whether the tokens of the vocabulary are text; otherwise they are bytes.
    space : str
        The character that stands for a space in the vocabulary; empty if there is none.
    fallback : bool
        Whether the vocabulary has byte fallback.

    Raises
    ------
    TokenizerFormatError
        If it is broken or not supported; the message names the component and its path.
    """
    if value is None:
        return Steps((), " ")
    steps = [_read_step(fields, space, fallback) for fields in components(value, "decoder", "decoder", "decoders")]
    kinds = [kind for kind, _ in steps]
    names = [name for name in kinds if name != "ByteFallback"] if fallback else kinds
    stepwise = Steps(tuple(step for _, step in steps))
    runs = stepwise if fallback else None
    if not fallback or kinds[1:2] == ["ByteFallback"]:
        match names:
            case ["ByteLevel"] if not characters:
                return Joining()
            case ["space"] | ["space", "Fuse"] | ["metaspace"] | ["metaspace", "Fuse"]:
                return Joining(byte_runs=runs)
            case ["space", "Fuse", "first space"]:
                return Joining("space", runs)
            case ["first metaspace"] | ["first metaspace", "Fuse"]:
                return Joining("token", runs)
    return stepwise


def _read_step(fields: Fields, space: str, fallback: bool) -> tuple[str, Step]:
    """Return what a step does, by a name if `read_decoder` recognizes it, and the step."""
    match fields.kind:
        case "ByteLevel":
            read_byte_level(fields)
            return "ByteLevel", _byte_level
        case "ByteFallback":
            return "ByteFallback", _byte_fallback
        case "Fuse":
            return "Fuse", lambda tokens: ["".join(tokens)]
        case "Replace":
            pattern = fields.take("pattern", dict)
            content: str = fields.take("content", str)
            finder = read_pattern(pattern, fields.inner("pattern"))
            name = "space" if space and pattern == {"String": space} and content == " " else "Replace"
            return name, partial(_each, partial(finder.replaced, content))
        case "Strip":
            content = fields.take("content", str)
            start, stop = fields.take("start", int), fields.take("stop", int)
            if len(content) != 1 or start < 0 or stop < 0:
                raise refused(fields.path, f"strips {start} and {stop} of {content!r}; expected one character", "correct it")
            name = "first space" if (content, start, stop) == (" ", 1, 0) else "Strip"
            return name, partial(_each, partial(_stripped, content, start, stop))
        case "Metaspace":
            mark, prepends, _ = read_metaspace(fields)
            first = prepends != "never"
            name = ("first metaspace" if first else "metaspace") if mark == space else "Metaspace"
            return name, partial(_metaspace, mark, first)
        case "BPEDecoder":
            return "BPEDecoder", partial(_word_ends, fields.take("suffix", str))
        case "WordPiece":
            return "WordPiece", partial(_word_pieces, fields.take("prefix", str), fields.take("cleanup", bool))
        case "SentencePiece":
            names: list[str] = fields.take("control_symbols", list)
            unknown, surface = fields.take("unk_piece", str, type(None)), fields.take("unk_surface", str)
            texts = {**dict.fromkeys(names, ""), **({} if unknown is None else {unknown: surface})}
            adds, removes = fields.take("add_dummy_prefix", bool), fields.take("remove_extra_whitespaces", bool)
            return "SentencePiece", partial(_pieces, texts, fallback, adds, removes)
        case kind:
            raise unsupported(fields.path, kind, SUPPORTED)


def _runs(tokens: list[str], *, fallback: bool = True) -> Iterator[str | bytes]:
    """Yield tokens, and each run of tokens of bytes as these bytes."""
    for is_byte, run in groupby(tokens, lambda token: fallback and _BYTE.fullmatch(token) is not None):
        if is_byte:
            yield bytes(int(token[3:5], 16) for token in run)
        else:
            yield from run


def _pieces(texts: dict[str, str], fallback: bool, adds: bool, removes: bool, tokens: list[str]) -> list[str]:
    """Replace `▁` by a space, and `texts` by others; the first `▁` of tokens is removed while there is no text yet."""
    out: list[str] = []
    strips = adds or removes
    for token in _runs(tokens, fallback=fallback):
        if isinstance(token, bytes):
            text = _ESCAPED.sub("\ufffd", token.decode("utf-8", "surrogateescape"))
        elif token in texts:
            text = texts[token]
        else:
            text = token.removeprefix(SPACE) if strips else token
            strips = strips and (removes or text == token)
            text = text.replace(SPACE, " ")
        strips = strips and not text
        out.append(text)
    return out


def _each(change: Callable[[str], str], tokens: list[str]) -> list[str]:
    return [change(token) for token in tokens]


def _stripped(content: str, start: int, stop: int, token: str) -> str:
    begin = min(start, len(token) - len(token.lstrip(content)))
    end = max(len(token) - stop, len(token.rstrip(content)))
    return token[begin : max(begin, end)]


def _byte_level(tokens: list[str]) -> list[str]:
    """Join tokens in byte characters; a token with other characters stands for itself."""
    data = [token.encode() if (found := decoded_or_none(token)) is None else found for token in tokens]
    return [b"".join(data).decode("utf-8", "replace")]


def _byte_fallback(tokens: list[str]) -> list[str]:
    """Replace each run of bytes by its text, or, if it is not UTF-8, each of its bytes by U+FFFD."""
    out: list[str] = []
    for token in _runs(tokens):
        try:
            out.append(token if isinstance(token, str) else token.decode())
        except UnicodeDecodeError:  # noqa: PERF203
            out += ["\ufffd"] * len(token)
    return out


def _metaspace(mark: str, first: bool, tokens: list[str]) -> list[str]:
    return [token.replace(mark, " " if number or not first else "") for number, token in enumerate(tokens)]


def _word_ends(suffix: str, tokens: list[str]) -> list[str]:
    return [
        token.replace(suffix, " " if number < len(tokens) - 1 else "") if suffix else token
        for number, token in enumerate(tokens)
    ]


def _word_pieces(prefix: str, cleanup: bool, tokens: list[str]) -> list[str]:
    out = []
    for number, token in enumerate(tokens):
        text = token
        if number:
            text = token.removeprefix(prefix) if token.startswith(prefix) else f" {token}"
        for before, after in _CLEANUP if cleanup else ():
            text = text.replace(before, after)
        out.append(text)
    return out


_CLEANUP = (
    *((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m")),
    *((" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")),
)
