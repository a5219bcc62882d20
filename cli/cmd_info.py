"""`bpejit info`."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bpejit.errors import BpejitError

from .options import debug_option, dtype_option, pattern_options, read_tokenizer
from .quoting import quoted

if TYPE_CHECKING:
    from bpejit import Tokenizer
    from bpejit.model import Model

SHOWN = 5
"""How many tokens, merges or inputs a line shows."""

FIRST_IDS = 10

HEAD_BYTES = 4096
"""How much of a file of no known format is looked at."""


@click.command()
@click.argument("path", metavar="TOKENIZER|TOKENS")
@click.option("--verify", is_flag=True, help="Read all ids of a token file, and compare them with the hash in its description.")
@dtype_option
@pattern_options
@debug_option
def info(
    *,
    path: str,
    verify: bool,
    dtype: str | None,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
) -> None:
    """Say what a tokenizer or a token file holds.

    \b
    Example:
        bpejit info tokenizer
        bpejit info tokens.bin
        bpejit info tokens.bin --verify
    """
    if not path.startswith("hf:") and not Path(path).exists():
        from bpejit.formats.published import explain_name

        raise BpejitError(explain_name(path) or f"there is no `{path}`; expected a tokenizer or a token file: check the path")
    lines = (
        _token_file_lines(path, dtype, verify=verify)
        if _is_token_file(path, dtype, verify=verify)
        else _tokenizer_lines(read_tokenizer(path, pattern, special_tokens, unicode), path)
    )
    for name, value in lines:
        click.echo(f"{name:<16}{value}")


def _is_token_file(path: str, dtype: str | None, *, verify: bool) -> bool:
    """Return whether a path is to be read as a token file: the user says so, it has a description, or it may be one."""
    from bpejit.errors import TokenizerFormatError
    from bpejit.formats.recognise import recognise
    from bpejit.tokenfiles.description import sidecar_path

    if path.startswith("hf:") or Path(path).is_dir():
        if verify:
            raise BpejitError(
                f"`{path}` is a tokenizer; expected a token file, whose ids `--verify` compares with a hash: leave it out"
            )
        return False
    if dtype is not None or verify or sidecar_path(path).exists():
        return True
    try:
        recognise(path)
    except TokenizerFormatError:
        if Path(path).suffix == ".json":
            raise
        if _is_text(path):
            raise BpejitError(
                f"`{path}` is neither a tokenizer nor a token file: it holds text, and there is no "
                f"`{sidecar_path(path)}` that describes it; expected a tokenizer or a token file: encode the text with "
                "`bpejit encode`, or say `--dtype` if it is a token file of another tool"
            ) from None
        return True
    return False


def _is_text(path: str) -> bool:
    """Return whether a file begins with UTF-8 text without control characters, which 2-byte and 4-byte ids hardly ever are."""
    with Path(path).open("rb") as file:
        head = file.read(HEAD_BYTES)
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return bool(text) and all(character >= " " or character in "\t\n\v\f\r\x1b" for character in text)


def _tokenizer_lines(tokenizer: Tokenizer, path: str) -> Iterator[tuple[str, str]]:
    from bpejit.splitting import compile_pattern
    from bpejit.splitting.unicode_versions import installed_unicode

    model = tokenizer.model
    yield "tokenizer", path
    specials = len(model.special_tokens)
    yield (
        "vocab size",
        f"{model.vocab_size:,} ({_count_merges(model)}, {specials} special token{'' if specials == 1 else 's'})",
    )
    yield (
        "special tokens",
        ", ".join(f"{_show_special(text)} = {token_id}" for text, token_id in model.special_tokens.items()) or "none",
    )
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


def _show_special(text: str) -> str:
    from bpejit.model import special_bytes

    return quoted(special_bytes(text))


def _token_file_lines(path: str, dtype: str | None, *, verify: bool) -> Iterator[tuple[str, str]]:
    from bpejit.tokenfiles.description import sidecar_path
    from bpejit.tokenfiles.flat import open_tokens

    described = sidecar_path(path).exists()
    # Without its description a file may be of either dtype; as uint16 it opens whenever it is whole.
    tokens = open_tokens(path, dtype=dtype or (None if described else "uint16"))
    if verify:
        tokens.verify()
    yield "token file" if described or dtype else "file", path
    yield "file size", f"{Path(path).stat().st_size:,} bytes"
    if not described and not dtype:
        yield (
            "kind",
            f"not known: it is not a tokenizer, and there is no `{sidecar_path(path)}`; say `--dtype` for a token file",
        )
        yield "tokens", f"{tokens.n_tokens:,} if they are uint16, {tokens.n_tokens // 2:,} if they are uint32"
        return
    yield "dtype", tokens.dtype
    yield "tokens", f"{tokens.n_tokens:,}"
    if not described:
        yield "first ids", " ".join(map(str, tokens.ids[:FIRST_IDS].tolist()))
        return
    read = tokens.bytes_read or 0
    yield "text", f"{read:,} bytes" + (f", {read / tokens.n_tokens:.2f} per token" if tokens.n_tokens else "")
    yield "vocab size", f"{tokens.vocab_size:,}"
    yield "tokenizer", str(tokens.tokenizer_sha256)
    yield "ids sha256", (tokens.ids_sha256 or "not in the description") + (", verified" if verify else "")
    yield "first ids", " ".join(map(str, tokens.ids[:FIRST_IDS].tolist()))
