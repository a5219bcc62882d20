"""`bpejit show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .command_types import command
from .output_lines import write_lines, write_message
from .reporting import is_quiet, json_text, report_options, wants_json, write_json
from .shared_options import complete_path, pattern_options, read_codec
from .text_output import append_visible, color_console, color_option, separator, styled_tokens

if TYPE_CHECKING:
    from rich.console import Console

    from bpejit.encoding.codec import Codec
    from bpejit.inspection.token_rows import MergeStep, TokenRow


@command()
@click.argument("tokenizer_path", metavar="TOKENIZER", shell_complete=complete_path)
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--file", "path", metavar="FILE", shell_complete=complete_path, help="Read the text from a file.")
@click.option("--ids", "with_ids", is_flag=True, help="Show each token on a line of its own, with its id.")
@click.option("--bytes", "with_bytes", is_flag=True, help="Likewise, with its bytes in hexadecimal.")
@click.option(
    "--offsets", "with_offsets", is_flag=True, help="Likewise, with its position in the bytes and characters of the text."
)
@click.option("--merges", "with_merges", is_flag=True, help="Show how each pre-token is merged, step by step.")
@color_option
@pattern_options
@report_options
def show(
    *,
    tokenizer_path: str,
    text: str | None,
    path: str | None,
    with_ids: bool,
    with_bytes: bool,
    with_offsets: bool,
    with_merges: bool,
    color: str,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
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
    if text not in (None, "-", "") and len(text) < 256 and not is_quiet() and Path(text).is_file():
        write_message(f"note: `{text}` is also a file: `--file` shows its content")
    codec = read_codec(tokenizer_path, pattern, special_tokens, unicode)
    from bpejit.inspection.token_rows import token_rows

    rows = token_rows(codec, data)
    merges = _trace(codec, data) if with_merges else None
    if wants_json():
        write_json(
            tokenizer=tokenizer_path,
            bytes=len(data),
            tokens=[_token_fields(row) for row in rows],
            merges=None if merges is None else [_merge_fields(*entry) for entry in merges],
        )
        return
    console = color_console(color)
    if merges is not None:
        _write_merges(merges, console)
    elif with_ids or with_bytes or with_offsets:
        _write_rows(rows, console, with_ids=with_ids, with_bytes=with_bytes, with_offsets=with_offsets)
    elif console is not None:
        console.print(styled_tokens(rows), soft_wrap=True)
    else:
        from bpejit.inspection.token_rows import plain_tokens

        write_lines(plain_tokens(rows, separator()).removesuffix("\n").split("\n"))
    if not is_quiet():
        n_tokens = len(rows)
        per_token = f", {len(data) / n_tokens:.2f} bytes per token" if n_tokens else ""
        write_message(f"{n_tokens:,} token{'' if n_tokens == 1 else 's'}, {len(data):,} bytes{per_token}")


def _read_text(text: str | None, path: str | None) -> bytes:
    if (text is None) == (path is None):
        raise click.UsageError("expected a text, `-` for standard input, or `--file FILE`, and only one of them")
    if text is not None and text != "-":
        return text.encode("utf-8", "surrogateescape")
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources

    (source,) = find_sources([Path(path) if path is not None and path != "-" else "-"], Contents("text", plain_only=True))
    parts = []
    with source.open() as file:
        while block := file.read(1 << 20):
            parts.append(block)
    return b"".join(parts)


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
    return {
        "id": row.id,
        "token": json_text(row.data),
        "bytes": row.data.hex(),
        "start": row.start,
        "end": row.end,
        "char_start": row.char_start,
        "char_end": row.char_end,
        "special": row.special,
    }


def _merge_fields(piece: bytes, steps: list[MergeStep], final: list[bytes]) -> dict[str, Any]:
    return {
        "pretoken": json_text(piece),
        "steps": [
            {"rank": step.rank, "token": json_text(step.result), "result": list(map(json_text, step.tokens))} for step in steps
        ],
        "result": list(map(json_text, final)),
    }


def _write_rows(rows: list[TokenRow], console: Console | None, *, with_ids: bool, with_bytes: bool, with_offsets: bool) -> None:
    """Write a line for each token; the token is the last column, since its width on a terminal is not known."""
    columns = []
    if with_ids:
        columns.append([f"{row.id}" for row in rows])
    if with_offsets:
        columns.append([f"{row.start}:{row.end}" for row in rows])
        columns.append([f"{row.char_start}:{row.char_end}" for row in rows])
    if with_bytes:
        columns.append([row.data.hex(" ") for row in rows])
    heads = ["id"] * with_ids + ["bytes", "characters"] * with_offsets + ["hex"] * with_bytes
    widths = [min(max(map(len, [head, *column])), 60) for head, column in zip(heads, columns, strict=True)]
    lines = [
        "  ".join(f"{value:<{width}}" for value, width in zip(line, widths, strict=True)) for line in zip(*columns, strict=True)
    ]
    head = "  ".join(f"{value:<{width}}" for value, width in zip(heads, widths, strict=True)) + "  token"
    if console is None:
        from bpejit.inspection.visible_text import plain_text

        mark = separator()
        write_lines(
            [head, *(f"{line}  {mark}{plain_text(row.data, mark)}{mark}" for line, row in zip(lines, rows, strict=True))]
        )
        return
    from rich.text import Text

    console.print(Text(head, "dim"))
    for index, (line, row) in enumerate(zip(lines, rows, strict=True)):
        text = Text(f"{line}  ")
        text.append_text(_colored([row.data], index))
        console.print(text, soft_wrap=True)


def _write_merges(merges: list[tuple[bytes, list[MergeStep], list[bytes]]], console: Console | None) -> None:
    for piece, steps, final in merges:
        lines: list[tuple[str, list[bytes]]] = [("bytes", [piece[index : index + 1] for index in range(len(piece))])]
        lines += [("whole" if step.rank is None else f"{step.rank}", list(step.tokens)) for step in steps]
        if not steps and len(piece) > 1 and len(final) < len(piece):
            lines.append(("result", final))  # too long to be traced
        if console is None:
            _write_plain_merges(lines)
            continue
        from rich.text import Text

        for label, tokens in lines:
            text = Text()
            text.append(f"{label:>8}  ", "dim")
            text.append_text(_colored(tokens, 0))
            console.print(text, soft_wrap=True)
        console.print()


def _write_plain_merges(lines: list[tuple[str, list[bytes]]]) -> None:
    from bpejit.inspection.visible_text import plain_text

    mark = separator()
    write_lines(f"{label:>8}  {mark.join(plain_text(token, mark) for token in tokens)}" for label, tokens in lines)
    write_lines([""])


def _colored(tokens: list[bytes], first: int) -> Any:
    from rich.text import Text

    from .text_output import BACKGROUNDS

    text = Text()
    for index, token in enumerate(tokens, start=first):
        append_visible(text, token, f"black on {BACKGROUNDS[index % len(BACKGROUNDS)]}")
    return text
