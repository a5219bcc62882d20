"""`bpejit split`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from bpejit.splitting.presets import PRESETS_WITH_SOURCE, Pattern, pattern_source

from .options import PATTERNS, debug_option, input_format_option, quiet_option, unicode_option
from .progress import format_bytes, watch
from .quoting import quoted

if TYPE_CHECKING:
    from bpejit.arrays import Array
    from bpejit.corpus.sources import Source
    from bpejit.splitting import SplitPattern, Splitter

DEFAULT_COUNT = 100

STATS_COUNT = 10

LONGEST_SHOWN = 72
"""Characters of a pre-token that a line of `--stats` shows."""


def _list_presets(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if not value:
        return
    for name, preset in PRESETS_WITH_SOURCE.items():
        click.echo(f"{name:<15}{preset.used_by:<42}{preset.source}")
    ctx.exit()


@click.command()
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True)
@click.option(
    "--pattern",
    "patterns",
    multiple=True,
    metavar="NAME|REGEX",
    help=f"The split pattern: {', '.join(PATTERNS)}, or a regular expression; given again, each splits the pieces of the "
    "one before.  [default: gpt2]",
)
@click.option(
    "--special", "specials", multiple=True, metavar="TEXT", help="A special token, found before the pattern; may be repeated."
)
@click.option("--tokenizer", metavar="FOLDER", help="Take pattern and special tokens of a tokenizer.")
@unicode_option("the one that the tokenizer or the regex package has")
@click.option(
    "--count",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"How many pre-tokens to show, 0 for all.  [default: {DEFAULT_COUNT}; with --stats {STATS_COUNT}; with --json all]",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON list for each input; a byte that is no UTF-8 is \\udcNN.")
@click.option("--stats", is_flag=True, help="Show the most frequent and the longest pre-tokens instead.")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list_presets, help="Show the named patterns and exit."
)
@input_format_option
@quiet_option
@debug_option
def split(
    *,
    inputs: tuple[str, ...],
    patterns: tuple[str, ...],
    specials: tuple[str, ...],
    tokenizer: str | None,
    unicode: str | None,
    count: int | None,
    as_json: bool,
    stats: bool,
    input_format: str,
    quiet: bool,
) -> None:
    """Show what a split pattern makes of a text.

    INPUT is files, globs, or - for standard input.
    Each line is one pre-token in quotes; a byte that is no UTF-8 is shown as \\xNN.
    Standard error says how many there are, and how fast the pattern runs.

    \b
    Example:
        bpejit split --pattern llama3 corpus.txt
        echo "it's 2026" | bpejit split --pattern '\\p{N}{1,3}' --pattern gpt2 -
        bpejit split --stats --tokenizer my-tokenizer 'shards/*.txt'
        bpejit split --list
    """
    if tokenizer is not None and patterns:
        raise click.UsageError("--tokenizer brings its own pattern; give either it or --pattern.")
    if "" in specials:
        raise click.UsageError("--special is empty; a special token has at least one character.")
    if as_json and stats:
        raise click.UsageError("--json shows pre-tokens and --stats does not; give one of them.")
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources

    with watch(quiet=quiet) as progress:
        splitter = _make_splitter(patterns, specials, tokenizer, unicode)
        sources = find_sources(inputs, Contents(input_format))
        if stats:
            totals = _show_stats(splitter, sources, STATS_COUNT if count is None else count)
        elif as_json:
            totals = _show_json(splitter, sources, count or None)
        else:
            totals = _show_lines(splitter, sources, DEFAULT_COUNT if count is None else count or None)
        progress.say(totals.describe())
        progress.say(_describe_pattern(splitter.pattern))


def _make_splitter(patterns: tuple[str, ...], specials: tuple[str, ...], folder: str | None, unicode: str | None) -> Splitter:
    from bpejit.formats.folder import load_folder
    from bpejit.model import special_bytes
    from bpejit.splitting import Splitter

    pattern: Pattern
    if folder is not None:
        model = load_folder(folder, unicode=unicode)
        pattern, unicode = model.pattern, model.unicode
        specials = (*model.special_tokens, *specials)
    elif len(patterns) <= 1:
        pattern = patterns[0] if patterns else "gpt2"
    else:
        sources = map(pattern_source, patterns)
        pattern = tuple(stage for source in sources for stage in ((source,) if isinstance(source, str) else source))
    return Splitter(pattern, [special_bytes(text) for text in specials], unicode=unicode)


@dataclass
class _Totals:
    """What was split, and how much of it was shown."""

    n_bytes: int = 0
    n_spans: int = 0
    n_specials: int = 0
    shown: int | None = None

    def add(self, ends: Array) -> None:
        from bpejit.kernels.constants import SPECIAL_FLAG

        self.n_spans += ends.size
        self.n_specials += int((ends >= SPECIAL_FLAG).sum())

    def describe(self) -> str:
        n_pretokens = self.n_spans - self.n_specials
        text = f"split {format_bytes(self.n_bytes)} into {n_pretokens:,} pre-token{'' if n_pretokens == 1 else 's'}"
        if self.n_specials:
            text += f" and {self.n_specials:,} special token{'' if self.n_specials == 1 else 's'}"
        if self.shown is not None and self.shown < self.n_spans:
            text += f"; shown are the first {self.shown:,}, and all with --count 0"
        return text


def _blocks(splitter: Splitter, source: Source, totals: _Totals) -> Iterator[tuple[Array, int, Array]]:
    """Yield block after block of a source: the text, where its first span begins, and where the spans end."""
    from bpejit.corpus.chunks import Chunker, ChunkReader

    reader = ChunkReader()
    for chunk in Chunker(splitter).chunks([source]):
        piece = reader.read(chunk)
        totals.n_bytes += piece.cut
        for first, ends, n in splitter.blocks(piece.text, piece.cut, piece.stop, piece.final):
            totals.add(ends[:n])
            yield piece.text, first, ends[:n]


def _spans(text: Array, first: int, ends: Array) -> Iterator[tuple[bytes, bool]]:
    """Yield the bytes of each span, and whether it is a special token."""
    from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG

    for end in ends.tolist():
        yield text[first : end & POSITION_MASK].tobytes(), bool(end & SPECIAL_FLAG)
        first = end & POSITION_MASK


def _show_lines(splitter: Splitter, sources: list[Source], count: int | None) -> _Totals:
    """Write a line for each pre-token; those beyond `count` are only counted."""
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


def _show_json(splitter: Splitter, sources: list[Source], count: int | None) -> _Totals:
    """Write a JSON list for each source, of at most `count` pre-tokens."""
    totals = _Totals()
    for source in sources:
        click.echo("[", nl=False)
        shown = 0
        for text, first, ends in _blocks(splitter, source, totals):
            some = ends if count is None else ends[: count - shown]
            spans = [json.dumps(span.decode("utf-8", "surrogateescape")) for span, _ in _spans(text, first, some)]
            click.echo((", " if shown and spans else "") + ", ".join(spans), nl=False)
            shown += len(spans)
        click.echo("]")
    return totals


def _show_stats(splitter: Splitter, sources: list[Source], count: int) -> _Totals:
    """Write the most frequent and the longest pre-tokens; special tokens do not count."""
    from bpejit.training.counting import PretokenCounter

    totals = _Totals()
    counter = PretokenCounter()
    for source in sources:
        for text, first, ends in _blocks(splitter, source, totals):
            counter.add_spans(text, first, ends, ends.size)
    counts = counter.table().to_counts()
    click.echo(f"{len(counts):,} distinct pre-tokens; the most frequent:")
    _show_table(counts, count, lambda pretoken: counts[pretoken], " times")
    click.echo("the longest:")
    _show_table(counts, count, len, " bytes")
    return totals


def _show_table(counts: dict[bytes, int], count: int, size: Callable[[bytes], int], unit: str) -> None:
    ranked = sorted(counts, key=lambda pretoken: (-size(pretoken), pretoken))
    for pretoken in ranked[: count or None]:
        shown = quoted(pretoken)
        if len(shown) > LONGEST_SHOWN:
            shown = shown[: LONGEST_SHOWN - 3] + "..."
        click.echo(f"{size(pretoken):>12,}{unit}  {shown}")


def _describe_pattern(pattern: SplitPattern) -> str:
    name = f"the split pattern {pattern.name}" if pattern.name else "the split pattern"
    return pattern.reason or f"{name} runs as a compiled automaton, which is the fast form"
