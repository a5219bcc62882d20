"""`bpejit info`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bpejit.errors import BpejitError

from .options import debug_option, pattern_options, read_tokenizer

if TYPE_CHECKING:
    from bpejit import Tokenizer
    from bpejit.model import Model

SHOWN = 5
"""How many tokens, merges or inputs a line shows."""

FIRST_IDS = 10


@click.command()
@click.argument("path", metavar="TOKENIZER|TOKENS")
@pattern_options
@debug_option
def info(*, path: str, pattern: str | None, special_tokens: dict[str, int] | None, unicode: str | None) -> None:
    """Say what a tokenizer or a token file holds.

    \b
    Example:
        bpejit info tokenizer
        bpejit info tokens.bin
    """
    if not path.startswith("hf:") and not Path(path).exists():
        raise BpejitError(f"there is no `{path}`; expected a tokenizer or a token file: check the path")
    lines = (
        _token_file_lines(path)
        if _is_token_file(path)
        else _tokenizer_lines(read_tokenizer(path, pattern, special_tokens, unicode), path)
    )
    for name, value in lines:
        click.echo(f"{name:<16}{value}")


def _is_token_file(path: str) -> bool:
    """Whether a path is a file with the description of a token file, or of no tokenizer format."""
    from bpejit.errors import TokenizerFormatError
    from bpejit.formats.recognise import recognise
    from bpejit.tokenfiles.flat import sidecar_path

    if path.startswith("hf:") or Path(path).is_dir():
        return False
    if sidecar_path(path).exists():
        return True
    try:
        recognise(path)
    except TokenizerFormatError:
        return Path(path).suffix != ".json"
    return False


def _tokenizer_lines(tokenizer: Tokenizer, path: str) -> Iterator[tuple[str, str]]:
    from bpejit.split import compile_pattern
    from bpejit.split.unicode_versions import installed_unicode

    model = tokenizer.model
    yield "tokenizer", path
    specials = len(model.special_tokens)
    yield (
        "vocab size",
        f"{model.vocab_size:,} ({_count_merges(model)}, {specials} special token{'' if specials == 1 else 's'})",
    )
    yield "special tokens", ", ".join(f"{text} = {token_id}" for text, token_id in model.special_tokens.items()) or "none"
    pattern = compile_pattern(model.pattern, unicode=model.unicode)
    how = f"runs through the regex package: {pattern.reason}" if pattern.kind == "regex" else "runs as a compiled automaton"
    shown = model.pattern if isinstance(model.pattern, str) else ", then ".join(model.pattern)
    yield "split pattern", f"{shown} ({how})"
    yield "unicode", model.unicode or f"{installed_unicode()}, that of the installed regex package"
    if model.preparation is not None:
        yield "before that", f"normalizer {model.preparation.normalizer}, pre-tokenizer {model.preparation.pre_tokenizer}"
    yield "tie rule", model.tie_break or "not known"
    longest = sorted(model.tokens.values(), key=lambda token: (-len(token), token))[:SHOWN]
    yield "longest tokens", ", ".join(f"{_show(token)} ({len(token)} bytes)" for token in longest)
    yield from _merge_lines(model)
    notes = dict(model.training)
    if "inputs" in notes:
        yield "inputs", _show_note(notes.pop("inputs"))
    rest = ", ".join(f"{name} {_show_note(value)}" for name, value in notes.items() if value is not None)
    if rest:
        yield "training", rest
    yield "sha256", model.sha256


def _count_merges(model: Model) -> str:
    return "merged by rank" if model.ranked else f"{len(model.merges):,} merges"


def _merge_lines(model: Model) -> Iterator[tuple[str, str]]:
    ranks = range(len(model.merges))
    for name, some in (("first merges", ranks[:SHOWN]), ("last merges", ranks[SHOWN:][-SHOWN:])):
        if some:
            yield name, ", ".join(_show_merge(model, rank) for rank in some)


def _show_merge(model: Model, rank: int) -> str:
    left, right = model.merges[rank]
    return _show(left + right) + (f" x {model.merge_counts[rank]:,}" if model.merge_counts is not None else "")


def _show_note(value: Any) -> str:
    """Write what the training notes say: numbers, and the list of inputs."""
    if isinstance(value, dict):
        size = value.get("bytes")
        return str(value.get("path", value)) + (f" ({size:,} bytes)" if isinstance(size, int) else "")
    if isinstance(value, list):
        more = [f"and {len(value) - SHOWN} more"] if len(value) > SHOWN else []
        return ", ".join([*map(_show_note, value[:SHOWN]), *more])
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _show(token: bytes) -> str:
    """Write a token in quotes: as text where it is text, else as bytes."""
    try:
        return repr(token.decode("utf-8"))
    except UnicodeDecodeError:
        return repr(token)


def _token_file_lines(path: str) -> Iterator[tuple[str, str]]:
    from bpejit.tokenfiles.flat import open_tokens, sidecar_path

    described = sidecar_path(path).exists()
    # Without its description a file may be of either dtype; as uint16 it opens whenever it is whole.
    tokens = open_tokens(path, dtype=None if described else "uint16")
    yield "token file", path
    yield "file size", f"{Path(path).stat().st_size:,} bytes"
    if not described:
        yield "dtype", f"not known, since there is no `{sidecar_path(path)}`: `bpejit decode --dtype` can be told"
        yield "tokens", f"{tokens.n_tokens:,} if uint16, {tokens.n_tokens // 2:,} if uint32"
        return
    yield "dtype", tokens.dtype
    yield "tokens", f"{tokens.n_tokens:,}"
    read = tokens.bytes_read or 0
    yield "text", f"{read:,} bytes" + (f", {read / tokens.n_tokens:.2f} per token" if tokens.n_tokens else "")
    yield "vocab size", f"{tokens.vocab_size:,}"
    yield "tokenizer", str(tokens.tokenizer_sha256)
    yield "first ids", " ".join(map(str, tokens.ids[:FIRST_IDS].tolist()))
