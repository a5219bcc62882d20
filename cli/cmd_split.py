"""`bpejit split`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from bpejit.splitting.presets import PRESET_TABLE, Pattern, pattern_source

from .command_types import Count, command
from .output_lines import write_line
from .progress import format_bytes, watch
from .reporting import json_text, report_options, wants_json, write_json
from .shared_options import PATTERNS, complete_path, complete_pattern, input_argument, input_options, unicode_option
from .text_output import quoted

if TYPE_CHECKING:
    from bpejit.arrays import Array
    from bpejit.corpus.blocks import Skipped
    from bpejit.corpus.sources import Source
    from bpejit.splitting import SplitPattern, Splitter

DEFAULT_COUNT = 100

STATS_COUNT = 10

LONGEST_SHOWN = 72
"""Number of characters of a pre-token in a line of `--stats`."""


def _list_presets(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if not value:
        return
    for name, preset in PRESET_TABLE.items():
        write_line(f"{name:<15}{preset.used_by:<42}{preset.source}")
    ctx.exit()


@command()
@input_argument
@click.option(
    "--pattern",
    "patterns",
    multiple=True,
    metavar="NAME|REGEX",
    shell_complete=complete_pattern,
    help=f"Split pattern: {', '.join(PATTERNS)}, or a regular expression. If repeated, each pattern splits the pre-tokens of "
    "the previous one.  [default: gpt2]",
)
@click.option(
    "--special-token", "special_tokens", multiple=True, metavar="TEXT", help="Special token to split off; may be repeated."
)
@click.option(
    "--tokenizer", metavar="FOLDER", shell_complete=complete_path, help="Use the pattern and special tokens of a tokenizer."
)
@unicode_option("that of the tokenizer or the regex package")
@click.option(
    "--count",
    type=Count(0),
    metavar="N",
    help=f"Number of pre-tokens to show, 0 for all.  [default: {DEFAULT_COUNT}; with --stats {STATS_COUNT}; with --json all]",
)
@click.option("--stats", is_flag=True, help="Show the most frequent and the longest pre-tokens instead.")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list_presets, help="List the named patterns and exit."
)
@input_options
@report_options
def split(
    *,
    inputs: tuple[str, ...],
    patterns: tuple[str, ...],
    special_tokens: tuple[str, ...],
    tokenizer: str | None,
    unicode: str | None,
    count: int | None,
    stats: bool,
    reading: dict[str, Any],
) -> None:
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
    if tokenizer is not None and patterns:
        raise click.UsageError("`--tokenizer` and `--pattern` cannot be combined; expected one of them: leave one out")
    if "" in special_tokens:
        raise click.UsageError("`--special-token` is empty; expected at least one character: leave it out")
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources

    with watch() as progress:
        splitter = _make_splitter(patterns, special_tokens, tokenizer, unicode)
        sources = find_sources(inputs, Contents(**reading))
        if stats:
            totals = _show_stats(splitter, sources, STATS_COUNT if count is None else count)
        elif wants_json():
            totals = _write_json(splitter, sources, count or None)
        else:
            totals = _show_lines(splitter, sources, DEFAULT_COUNT if count is None else count or None)
        if totals.skipped:
            from bpejit.corpus.blocks import skipped_note

            progress.message(skipped_note(totals.skipped.count, totals.skipped.first))
        if not wants_json():
            progress.message(totals.describe())
            progress.message(_describe_pattern(splitter.pattern))


def _make_splitter(
    patterns: tuple[str, ...], special_tokens: tuple[str, ...], folder: str | None, unicode: str | None
) -> Splitter:
    from bpejit.formats.folder_reading import load_folder
    from bpejit.model import special_bytes
    from bpejit.splitting import Splitter

    pattern: Pattern
    if folder is not None:
        model = load_folder(folder, unicode=unicode)
        pattern, unicode = model.pattern, model.unicode
        special_tokens = (*model.special_tokens, *special_tokens)
    elif len(patterns) <= 1:
        pattern = patterns[0] if patterns else "gpt2"
    else:
        sources = map(pattern_source, patterns)
        pattern = tuple(stage for source in sources for stage in ((source,) if isinstance(source, str) else source))
    return Splitter(pattern, [special_bytes(text) for text in special_tokens], unicode=unicode)


@dataclass
class _Totals:
    """Totals of the split text, and the number of pre-tokens shown."""

    n_bytes: int = 0
    n_spans: int = 0
    n_specials: int = 0
    skipped: Skipped | None = None
    shown: int | None = None

    def add(self, ends: Array) -> None:
        """Add the spans of a block."""
        from bpejit.kernels.constants import SPECIAL_FLAG

        self.n_spans += ends.size
        self.n_specials += int((ends >= SPECIAL_FLAG).sum())

    @property
    def n_pretokens(self) -> int:
        """Number of pre-tokens."""
        return self.n_spans - self.n_specials

    def describe(self) -> str:
        """Return a summary."""
        plural = "" if self.n_pretokens == 1 else "s"
        text = f"split {format_bytes(self.n_bytes)} into {self.n_pretokens:,} pre-token{plural}"
        if self.n_specials:
            text += f" and {self.n_specials:,} special token{'' if self.n_specials == 1 else 's'}"
        if self.shown is not None and self.shown < self.n_spans:
            text += f"; the first {self.shown:,} are shown, and all with `--count 0`"
        return text

    def fields(self) -> dict[str, Any]:
        """Return the totals for JSON."""
        return {"bytes": self.n_bytes, "pretokens": self.n_pretokens, "special_tokens": self.n_specials}


def _blocks(splitter: Splitter, source: Source, totals: _Totals) -> Iterator[tuple[Array, int, Array]]:
    """Yield the blocks of a source: text, start of the first span, and ends of all spans."""
    from bpejit.corpus.chunks import Chunker, ChunkReader
    from bpejit.splitting import Splitter

    reader = ChunkReader()
    plain = Splitter(splitter.pattern, [])
    for chunk in Chunker(splitter).chunks([source]):
        content = reader.read(chunk)
        totals.n_bytes += content.cut
        totals.skipped = content.skipped if totals.skipped is None else totals.skipped + content.skipped
        if content.ends is None:
            blocks = splitter.blocks(content.text, content.cut, content.stop, content.final)
        else:
            blocks = (splitter if content.specials else plain).document_blocks(content.text, content.ends)
        for first, ends, n in blocks:
            totals.add(ends[:n])
            yield content.text, first, ends[:n]


def _spans(text: Array, first: int, ends: Array) -> Iterator[tuple[bytes, bool]]:
    """Yield the bytes of each span, and True if it is a special token."""
    from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG

    for end in ends.tolist():
        yield text[first : end & POSITION_MASK].tobytes(), bool(end & SPECIAL_FLAG)
        first = end & POSITION_MASK


def _show_lines(splitter: Splitter, sources: list[Source], count: int | None) -> _Totals:
    """Write a line for each of the first `count` pre-tokens, and count the others."""
    totals = _Totals(shown=0)
    for source in sources:
        for text, first, ends in _blocks(splitter, source, totals):
            shown = totals.shown or 0
            some = ends if count is None else ends[: count - shown]
            lines = [quoted(span) + ("  special" if is_special else "") for span, is_special in _spans(text, first, some)]
            if lines:
                click.echo("\n".join(lines))
            totals.shown = shown + len(lines)
    return totals


def _write_json(splitter: Splitter, sources: list[Source], count: int | None) -> _Totals:
    """Write a JSON object with a list of at most `count` pre-tokens for each source, block by block."""
    totals = _Totals()
    click.echo('{"command": "split", "inputs": [', nl=False)  # not `write_json`, which needs all pre-tokens at once
    for number, source in enumerate(sources):
        click.echo(f'{", " if number else ""}{{"path": {json.dumps(source.path)}, "pretokens": [', nl=False)
        shown = 0
        for text, first, ends in _blocks(splitter, source, totals):
            some = ends if count is None else ends[: count - shown]
            spans = [json.dumps(json_text(span)) for span, _ in _spans(text, first, some)]
            click.echo((", " if shown and spans else "") + ", ".join(spans), nl=False)
            shown += len(spans)
        click.echo("]}", nl=False)
    rest = {"totals": totals.fields(), **_pattern_fields(splitter.pattern)}
    click.echo(f"], {json.dumps(rest)[1:-1]}}}")
    return totals


def _show_stats(splitter: Splitter, sources: list[Source], count: int) -> _Totals:
    """Write the most frequent and the longest pre-tokens, without special tokens."""
    from bpejit.counting.pretoken_counter import PretokenCounter

    totals = _Totals()
    counter = PretokenCounter()
    for source in sources:
        for text, first, ends in _blocks(splitter, source, totals):
            counter.add_spans(text, first, ends, ends.size)
    counts = counter.table().to_counts()
    if wants_json():
        write_json(
            distinct_pretokens=len(counts),
            most_frequent=[_count_fields(pretoken, counts) for pretoken in _ranked(counts, count, lambda one: counts[one])],
            longest=[_count_fields(pretoken, counts) for pretoken in _ranked(counts, count, len)],
            totals=totals.fields(),
            **_pattern_fields(splitter.pattern),
        )
        return totals
    write_line(f"{len(counts):,} distinct pre-tokens; the most frequent:")
    _show_table(counts, count, lambda pretoken: counts[pretoken], " times")
    write_line("the longest:")
    _show_table(counts, count, len, " bytes")
    return totals


def _show_table(counts: dict[bytes, int], count: int, size: Callable[[bytes], int], unit: str) -> None:
    for pretoken in _ranked(counts, count, size):
        shown = quoted(pretoken)
        if len(shown) > LONGEST_SHOWN:
            shown = shown[: LONGEST_SHOWN - 3] + "..."
        write_line(f"{size(pretoken):>12,}{unit}  {shown}")


def _ranked(counts: dict[bytes, int], count: int, size: Callable[[bytes], int]) -> list[bytes]:
    """Return the pre-tokens with the greatest sizes, all of them if `count` is 0."""
    return sorted(counts, key=lambda pretoken: (-size(pretoken), pretoken))[: count or None]


def _count_fields(pretoken: bytes, counts: dict[bytes, int]) -> dict[str, Any]:
    return {"pretoken": json_text(pretoken), "count": counts[pretoken], "bytes": len(pretoken)}


def _pattern_fields(pattern: SplitPattern) -> dict[str, Any]:
    return {"pattern": pattern.source, "pattern_name": pattern.name, "pattern_reason": pattern.reason}


def _describe_pattern(pattern: SplitPattern) -> str:
    name = f"the split pattern {pattern.name}" if pattern.name else "the split pattern"
    return pattern.reason or f"{name} runs as a compiled automaton, which is fast"
