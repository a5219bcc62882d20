"""`bpejit show`, `bpejit explain` and `bpejit split`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import bpejit
from bpejit.splitting.presets import PRESET_TABLE, PRESETS
from bpejit.training.train_options import ExplainOptions

from . import shared_options as shared
from .command_types import command
from .progress import counted, format_bytes, watch
from .reporting import json_text, this_command, write_json, write_line, write_lines, write_message, wrote
from .text_output import color_console, color_option, quoted, separator, styled_rows, styled_tokens

if TYPE_CHECKING:
    from rich.console import Console

    from bpejit.corpus.sources import Source
    from bpejit.encoding.codec import Codec
    from bpejit.inspection.merge_trace import MergeTrace
    from bpejit.inspection.split_text import SplitText
    from bpejit.inspection.token_rows import TokenRow


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
    with_merges: bool,
    color: str,
    **columns: bool,
) -> None:
    """Show the tokens of a text.

    They are in colors on a terminal, and with separators elsewhere.
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
    from bpejit.encoding.codec import Codec
    from bpejit.inspection.token_rows import token_rows
    from bpejit.inspection.vocabulary_measures import words_of_tokens

    codec = Codec(tokenizer.model())
    rows = token_rows(codec, data)
    merges = _trace(codec, data) if with_merges else None
    if this_command().json:
        write_json(tokenizer=tokenizer.path, bytes=len(data), tokens=list(map(_token_fields, rows)), merges=merges)
        return
    console = color_console(color)
    if merges is not None:
        _write_merges(merges, console)
    elif any(columns.values()):
        _write_rows(rows, console, **columns)
    elif console is not None:
        console.print(styled_rows(rows), soft_wrap=True)
    else:
        from bpejit.inspection.token_rows import plain_tokens

        write_lines(plain_tokens(rows, separator()).removesuffix("\n").split("\n"))
    if not this_command().quiet:
        per_token = f", {len(data) / len(rows):.2f} bytes per token" if rows else ""
        words = words_of_tokens(codec.model)
        n_superwords = 0 if words is None else sum(words.words[row.id] > 1 for row in rows)
        superwords = "" if words is None else f", {counted(n_superwords, 'superword')}"
        write_message(f"{counted(len(rows), 'token')}{superwords}, {len(data):,} bytes{per_token}")


def _read_text(text: str | None, path: str | None) -> bytes:
    if (text is None) == (path is None):
        raise click.UsageError("expected a text, `-` for standard input, or `--file FILE`, and only one of them")
    if text is not None and text != "-":
        return text.encode("utf-8", "surrogateescape")
    (source,) = shared.read_sources([Path(path) if path not in (None, "-") else "-"], {"input_format": "text"})
    with source.open() as file:
        return file.read()


def _trace(codec: Codec, data: bytes) -> list[dict[str, Any]]:
    """Return each distinct pre-token, its steps, and the tokens that encoding gives."""
    from bpejit.inspection.token_rows import MergeTracer, pretokens, written
    from bpejit.inspection.vocabulary_measures import words_of_tokens

    words, ids_of = words_of_tokens(codec.model), codec.model.ids
    tracer = MergeTracer(codec.model)
    found = dict.fromkeys(piece for piece, special in pretokens(codec, data) if not special)
    with codec.workspace() as workspace:
        encoded = codec.encoder.encode_pretokens(list(found), workspace)
    traced = []
    for piece, ids in zip(found, encoded, strict=True):
        steps = []
        for step in tracer.steps(piece):
            n_words = 1 if words is None else int(words.words[ids_of[step.result]])
            steps.append({"rank": step.rank, "token": step.result, "words": n_words, "result": step.tokens})
        result = [codec.model.bytes_of(number) for number in ids.tolist()]
        symbols = tracer.symbols(piece)
        traced.append({"pretoken": written(piece, codec.model), "symbols": symbols, "steps": steps, "result": result})
    return traced


def _token_fields(row: TokenRow) -> dict[str, Any]:
    fields = row._asdict()
    return {"id": fields.pop("id"), "token": row.data, "bytes": fields.pop("data").hex(), **fields}


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


def _write_merges(merges: list[dict[str, Any]], console: Console | None) -> None:
    for merge in merges:
        piece, steps, final = merge["pretoken"], merge["steps"], merge["result"]
        symbols = merge["symbols"]
        lines = [("bytes" if max(map(len, symbols), default=1) == 1 else "symbols", symbols)]
        for step in steps:
            if step["words"] > 1 and all(label != "words" for label, _ in lines):
                lines.append(("words", lines[-1][1]))  # the rest makes superwords
            lines.append(("whole" if step["rank"] is None else f"{step['rank']}", step["result"]))
        if not steps and len(piece) > 1 and len(final) < len(piece):
            lines.append(("result", final))  # too long to be traced
        for label, tokens in lines:
            _write(console, f"{label:>8}  ", tokens, style="dim")
        _write(console, "", [])


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


@command()
@shared.path_argument("inputs", "[INPUT]...", nargs=-1)
@shared.options_of_counting(ExplainOptions)
@shared.path_option("--html", metavar="FILE", help="Write a page that shows one step at a time, for a browser.")
@shared.overwrite_option
@color_option
def explain(*, inputs: tuple[str, ...], html: str | None, overwrite: bool, color: str, options: dict[str, Any]) -> None:
    """Learn merges step by step, and show each step.

    INPUT is one or more files, folders, globs or URLs, or - for standard input, up to 1 MB of text.
    The merges are those of `bpejit train`.
    The page "How BPE training works" of the documentation explains the rows.

    \b
    Example:
        bpejit explain --words hug=10,pug=5,pun=12,bun=4,hugs=5
        bpejit explain --text "low lower lowest" --merges 5 --tie-break hf
        bpejit explain corpus.txt --merges 100 --html explain.html
    """
    instead = options["sources"] or options["words"] or options["text"] is not None
    inputs = shared.given_or_piped(inputs, instead=instead, other=", or give `--text` or `--words`")
    from bpejit.storage.files import replacing
    from bpejit.storage.outputs import check_outputs

    check_outputs([html] if html else [], inputs=inputs, overwrite=overwrite)
    with watch() as progress:
        trace = bpejit.explain(inputs or None, **options, progress=progress)
    if html is not None:
        with replacing(html) as file:
            file.write(trace.page().encode())
        if not this_command().quiet:
            write_message(wrote(html))
    if this_command().json:
        write_json(**trace.to_dict())
    elif html is None:
        _write_trace(trace, color_console(color))


def _write_trace(trace: MergeTrace, console: Console | None) -> None:
    from rich.text import Text

    from bpejit.inspection.merge_trace import GAP, LABEL_WIDTH, plain_line

    mark = separator()
    for label, items in trace.lines(mark):
        if console is None:
            write_line(plain_line(label, items, mark))
            continue
        line = Text.assemble((f"{label:<{LABEL_WIDTH}}", "bold" if label.startswith("merge") else "dim"))
        for item in items:
            before = item.before, "bold" if item.tokens else ""
            line = Text.assemble(line, before, styled_tokens(item.data()), (item.after + GAP, "bold" if item.marked else ""))
        console.print(line, soft_wrap=True)


DEFAULT_COUNT = 100
STATS_COUNT = 10
LONGEST_SHOWN = 72  # characters of a pre-token in a line of `--stats`


def _list_presets(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if not value:
        return
    for name, preset in PRESET_TABLE.items():
        write_line(f"{name:<15}{preset.used_by:<42}{preset.source}")
    ctx.exit()


@command()
@shared.input_argument
@shared.repeated_option(
    *("--pattern", "patterns"),
    metavar="NAME|REGEX",
    shell_complete=shared.complete_pattern,
    help=f"Split pattern: {', '.join(PRESETS)}, or a regular expression. If repeated, each pattern splits the pre-tokens of "
    "the previous one.  [default: gpt2]",
)
@shared.repeated_option(
    "--special-token", "special_tokens", metavar="TEXT", help="Special token to split off; may be repeated."
)
@shared.path_option("--tokenizer", metavar="FOLDER", help="Use the pattern and special tokens of a tokenizer.")
@shared.unicode_option("that of the tokenizer or the regex package")
@shared.count_option(
    "--count",
    least=0,
    text=f"Number of pre-tokens to show, 0 for all.  [default: {DEFAULT_COUNT}; with --stats {STATS_COUNT}; with --json all]",
)
@shared.flag("--stats", help="Show the most frequent and the longest pre-tokens instead.")
@shared.flag("--list", is_eager=True, expose_value=False, callback=_list_presets, help="List the named patterns and exit.")
@shared.input_options
def split(*, inputs: tuple[str, ...], count: int | None, stats: bool, reading: dict[str, Any], **splitting: Any) -> None:
    """Show the pre-tokens of a text under a split pattern.

    INPUT is one or more files, folders, globs or URLs, or - for standard input, as for `bpejit encode`.
    Each line is one pre-token in quotes; a byte that is not valid UTF-8 is shown as \\xNN.
    Totals, and whether the pattern runs fast, are reported on standard error.

    \b
    Example:
        bpejit split --pattern llama3 corpus.txt
        echo "it's 2026" | bpejit split --pattern '\\p{N}{1,3}' --pattern gpt2 -
        bpejit split --stats --tokenizer my-tokenizer 'shards/*.txt'
        bpejit split --list
    """
    if splitting["tokenizer"] is not None and splitting["patterns"]:
        raise click.UsageError("`--tokenizer` and `--pattern` cannot be combined; expected one of them: leave one out")
    if "" in splitting["special_tokens"]:
        raise click.UsageError("`--special-token` is empty; expected at least one character: leave it out")

    from bpejit.inspection.split_text import chosen_split

    with watch() as progress:
        text = chosen_split(**splitting)
        shown = None
        sources = shared.read_sources(inputs, reading)
        if stats:
            _show_stats(text, sources, STATS_COUNT if count is None else count)
        elif this_command().json:
            _write_json(text, sources, count or None)
        else:
            shown = _show_lines(text, sources, DEFAULT_COUNT if count is None else count or None)
        for note in shared.skipped_notes(text.skipped):
            progress.message(note)
        if not this_command().json:
            progress.message(_describe_split(text, shown))
            pattern = text.pattern
            name = f"the split pattern {pattern.name}" if pattern.name else "the split pattern"
            progress.message(pattern.reason or f"{name} runs as a compiled automaton, which is fast")


def _describe_split(text: SplitText, shown: int | None) -> str:
    """Return a summary, with the number of spans shown if not all may be."""
    summary = f"split {format_bytes(text.n_bytes)} into {counted(text.n_spans - text.n_specials, 'pre-token')}"
    if text.n_specials:
        summary += f" and {counted(text.n_specials, 'special token')}"
    if shown is not None and shown < text.n_spans:
        summary += f"; the first {shown:,} are shown, and all with `--count 0`"
    return summary


def _split_fields(text: SplitText) -> dict[str, Any]:
    """Return the totals and the pattern for JSON."""
    pattern = text.pattern
    totals = {"bytes": text.n_bytes, "pretokens": text.n_spans - text.n_specials, "special_tokens": text.n_specials}
    return {"totals": totals, "pattern": pattern.source, "pattern_name": pattern.name, "pattern_reason": pattern.reason}


def _show_lines(text: SplitText, sources: list[Source], count: int | None) -> int:
    """Write a line for each of the first `count` pre-tokens, and count the others; return the number of lines."""
    shown = 0
    for source in sources:
        for spans in text.spans(source, None if count is None else count - shown):
            if spans:
                click.echo("\n".join(quoted(span) + ("  special" if is_special else "") for span, is_special in spans))
            shown += len(spans)
    return shown


def _write_json(text: SplitText, sources: list[Source], count: int | None) -> None:
    """Write a JSON object with a list of at most `count` pre-tokens for each source, block by block."""
    click.echo('{"command": "split", "inputs": [', nl=False)  # not `write_json`, which needs all pre-tokens at once
    for number, source in enumerate(sources):
        click.echo(f'{", " if number else ""}{{"path": {json.dumps(source.path)}, "pretokens": [', nl=False)
        before = ""
        for spans in text.spans(source, count):
            if spans:
                click.echo(before + ", ".join(json.dumps(json_text(span)) for span, _ in spans), nl=False)
                before = ", "
        click.echo("]}", nl=False)
    click.echo(f"], {json.dumps(_split_fields(text))[1:-1]}}}")


def _show_stats(text: SplitText, sources: list[Source], count: int) -> None:
    """Write the most frequent and the longest pre-tokens, without special tokens."""
    from bpejit.counting.pretoken_counter import PretokenCounter

    counter = PretokenCounter()
    for source in sources:
        for block, first, ends in text.blocks(source):
            counter.add_spans(block, first, ends, ends.size)
    counts = {text.written(span): count for span, count in counter.table().to_counts().items()}

    def ranked(size: Callable[[bytes], int]) -> list[bytes]:
        """Return the pre-tokens with the greatest sizes, all of them if `count` is 0."""
        return sorted(counts, key=lambda pretoken: (-size(pretoken), pretoken))[: count or None]

    frequent = ranked(counts.__getitem__)
    longest = ranked(len)
    if this_command().json:
        found = (
            [{"pretoken": pretoken, "count": counts[pretoken], "bytes": len(pretoken)} for pretoken in pretokens]
            for pretokens in (frequent, longest)
        )
        write_json(distinct_pretokens=len(counts), most_frequent=next(found), longest=next(found), **_split_fields(text))
        return
    write_line(f"{len(counts):,} distinct pre-tokens; the most frequent:")
    _show_table((counts[pretoken], " times", pretoken) for pretoken in frequent)
    write_line("the longest:")
    _show_table((len(pretoken), " bytes", pretoken) for pretoken in longest)


def _show_table(rows: Iterator[tuple[int, str, bytes]]) -> None:
    for number, unit, pretoken in rows:
        shown = quoted(pretoken)
        write_line(f"{number:>12,}{unit}  {shown if len(shown) <= LONGEST_SHOWN else shown[: LONGEST_SHOWN - 3] + '...'}")
