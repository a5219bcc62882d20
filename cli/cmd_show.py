"""`bpejit show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import shared_options as shared
from .command_types import command
from .progress import counted
from .reporting import this_command, write_json, write_line, write_lines, write_message
from .text_output import color_console, color_option, separator, styled_rows, styled_tokens

if TYPE_CHECKING:
    from rich.console import Console

    from bpejit.encoding.codec import Codec
    from bpejit.inspection.token_rows import MergeStep, TokenRow


@command()
@shared.tokenizer_argument
@click.argument("text", metavar="[TEXT]", required=False)
@shared.path_option("--file", "path", metavar="FILE", help="Read the text from a file.")
@shared.flag("--ids", "with_ids", help="Show each token on a line of its own, with its id.")
@shared.flag("--bytes", "with_bytes", help="Likewise, with its bytes in hexadecimal.")
@shared.flag("--offsets", "with_offsets", help="Likewise, with its position in the bytes and characters of the text.")
@shared.flag("--merges", "with_merges", help="Show how each pre-token is merged, step by step.")
@color_option
@shared.pattern_options
def show(
    *,
    tokenizer: shared.TokenizerChoice,
    text: str | None,
    path: str | None,
    with_ids: bool,
    with_bytes: bool,
    with_offsets: bool,
    with_merges: bool,
    color: str,
) -> None:
    """Show the tokens of a text, in colors on a terminal and with separators elsewhere.

    TEXT is the text itself, or - for standard input.
    Control and bidirectional characters, and bytes that are not valid UTF-8, are shown as escapes; a line break follows \\n.

    \b
    Example:
        bpejit show tokenizer "The quick brown fox"
        echo hello | bpejit show tokenizer -
        bpejit show tokenizer --file corpus.txt --color never
        bpejit show tokenizer "naïve café" --ids --bytes --offsets
        bpejit show tokenizer "unbelievable" --merges
    """
    data = _read_text(text, path)
    if text not in (None, "-", "") and len(text) < 256 and not this_command().quiet and Path(text).is_file():
        write_message(f"note: `{text}` is also a file: `--file` shows its content")
    codec = tokenizer.codec()
    from bpejit.inspection.token_rows import token_rows

    rows = token_rows(codec, data)
    merges = _trace(codec, data) if with_merges else None
    if this_command().json:
        traced = None if merges is None else [_merge_fields(*entry) for entry in merges]
        write_json(tokenizer=tokenizer.path, bytes=len(data), tokens=list(map(_token_fields, rows)), merges=traced)
        return
    console = color_console(color)
    if merges is not None:
        _write_merges(merges, console)
    elif with_ids or with_bytes or with_offsets:
        _write_rows(rows, console, with_ids=with_ids, with_bytes=with_bytes, with_offsets=with_offsets)
    elif console is not None:
        console.print(styled_rows(rows), soft_wrap=True)
    else:
        from bpejit.inspection.token_rows import plain_tokens

        write_lines(plain_tokens(rows, separator()).removesuffix("\n").split("\n"))
    if not this_command().quiet:
        per_token = f", {len(data) / len(rows):.2f} bytes per token" if rows else ""
        write_message(f"{counted(len(rows), 'token')}, {len(data):,} bytes{per_token}")


def _read_text(text: str | None, path: str | None) -> bytes:
    if (text is None) == (path is None):
        raise click.UsageError("expected a text, `-` for standard input, or `--file FILE`, and only one of them")
    if text is not None and text != "-":
        return text.encode("utf-8", "surrogateescape")
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources

    (source,) = find_sources([Path(path) if path is not None and path != "-" else "-"], Contents("text", plain_only=True))
    with source.open() as file:
        return file.read()


def _trace(codec: Codec, data: bytes) -> list[tuple[bytes, list[MergeStep], list[bytes]]]:
    """Return each distinct pre-token, its steps, and the tokens that encoding gives."""
    from bpejit.inspection.token_rows import MergeTracer, pretokens, token_bytes

    tracer = MergeTracer(codec.model)
    found = dict.fromkeys(piece for piece, special in pretokens(codec, data) if not special)
    with codec.workspace() as workspace:
        encoded = codec.encoder.encode_pretokens(list(found), workspace)
    tokens = [[token_bytes(codec.model, number) for number in ids.tolist()] for ids in encoded]
    return [(piece, tracer.steps(piece), final) for piece, final in zip(found, tokens, strict=True)]


def _token_fields(row: TokenRow) -> dict[str, Any]:
    fields = row._asdict()
    return {"id": fields.pop("id"), "token": row.data, "bytes": fields.pop("data").hex(), **fields}


def _merge_fields(piece: bytes, steps: list[MergeStep], final: list[bytes]) -> dict[str, Any]:
    traced = [{"rank": step.rank, "token": step.result, "result": step.tokens} for step in steps]
    return {"pretoken": piece, "steps": traced, "result": final}


def _write_rows(rows: list[TokenRow], console: Console | None, *, with_ids: bool, with_bytes: bool, with_offsets: bool) -> None:
    """Write a line for each token; the token is the last column, since its width on a terminal is not known."""
    columns = []
    if with_ids:
        columns.append(["id", *(str(row.id) for row in rows)])
    if with_offsets:
        columns.append(["bytes", *(f"{row.start}:{row.end}" for row in rows)])
        columns.append(["characters", *(f"{row.char_start}:{row.char_end}" for row in rows)])
    if with_bytes:
        columns.append(["hex", *(row.data.hex(" ") for row in rows)])
    widths = [min(max(map(len, column)), 60) for column in columns]
    head, *lines = (
        "".join(f"{value:<{width}}  " for value, width in zip(line, widths, strict=True)) for line in zip(*columns, strict=True)
    )
    _write(console, f"{head}token", [], style="dim")
    for number, (line, row) in enumerate(zip(lines, rows, strict=True)):
        _write(console, line, [row.data], first=number, enclosed=True)


def _write_merges(merges: list[tuple[bytes, list[MergeStep], list[bytes]]], console: Console | None) -> None:
    for piece, steps, final in merges:
        lines: list[tuple[str, list[bytes]]] = [("bytes", [piece[index : index + 1] for index in range(len(piece))])]
        lines += [("whole" if step.rank is None else f"{step.rank}", list(step.tokens)) for step in steps]
        if not steps and len(piece) > 1 and len(final) < len(piece):
            lines.append(("result", final))  # too long to be traced
        for label, tokens in [*((f"{label:>8}  ", tokens) for label, tokens in lines), ("", [])]:
            _write(console, label, tokens, style="dim")


def _write(
    console: Console | None, label: str, tokens: list[bytes], *, first: int = 0, style: str = "", enclosed: bool = False
) -> None:
    """Write a line with a label and tokens: in colors, or without a console with separators."""
    if console is None:
        from bpejit.inspection.visible_text import plain_text

        mark = separator()
        shown = mark.join(plain_text(token, mark) for token in tokens)
        write_line(f"{label}{mark}{shown}{mark}" if enclosed else f"{label}{shown}")
        return
    from rich.text import Text

    console.print(Text.assemble((label, style), styled_tokens(tokens, first=first)), soft_wrap=True)
