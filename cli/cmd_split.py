"""`bpejit split`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from bpejit.splitting.presets import PRESET_TABLE, PRESETS, Pattern, pattern_source

from . import shared_options as shared
from .command_types import command
from .progress import counted, format_bytes, watch
from .reporting import json_text, this_command, write_json, write_line
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
        text = _SplitText(_make_splitter(patterns, special_tokens, tokenizer, unicode))
        sources = find_sources(inputs, Contents(**reading))
        if stats:
            _show_stats(text, sources, STATS_COUNT if count is None else count)
        elif this_command().json:
            _write_json(text, sources, count or None)
        else:
            _show_lines(text, sources, DEFAULT_COUNT if count is None else count or None)
        for note in shared.skipped_notes(text.skipped):
            progress.message(note)
        if not this_command().json:
            progress.message(text.describe())
            progress.message(_describe_pattern(text.splitter.pattern))


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
class _SplitText:
    """What is split, its totals, and the number of pre-tokens shown."""

    splitter: Splitter
    n_bytes: int = 0
    n_spans: int = 0
    n_specials: int = 0
    skipped: Skipped | None = None
    shown: int | None = None

    def blocks(self, source: Source) -> Iterator[tuple[Array, int, Array]]:
        """Yield the blocks of a source, and add to the totals: text, start of the first span, and ends of all spans."""
        from bpejit.corpus.chunks import Chunker, ChunkReader
        from bpejit.kernels.constants import SPECIAL_FLAG
        from bpejit.splitting import Splitter

        reader = ChunkReader()
        plain = Splitter(self.splitter.pattern, [])
        for chunk in Chunker(self.splitter).chunks([source]):
            content = reader.read(chunk)
            self.n_bytes += content.cut
            self.skipped = content.skipped if self.skipped is None else self.skipped + content.skipped
            if content.ends is None:
                blocks = self.splitter.blocks(content.text, content.cut, content.stop, content.final)
            else:
                blocks = (self.splitter if content.specials else plain).document_blocks(content.text, content.ends)
            for first, ends, n in blocks:
                self.n_spans += n
                self.n_specials += int((ends[:n] >= SPECIAL_FLAG).sum())
                yield content.text, first, ends[:n]

    def spans(self, source: Source, count: int | None) -> Iterator[list[tuple[bytes, bool]]]:
        """Yield the first `count` spans of a source in each block: their bytes, and True for special tokens."""
        from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG

        for text, start, ends in self.blocks(source):
            some = ends[:count].tolist()
            starts = [start, *(end & POSITION_MASK for end in some)]
            count = None if count is None else count - len(some)
            yield [
                (text[first : end & POSITION_MASK].tobytes(), bool(end & SPECIAL_FLAG))
                for first, end in zip(starts, some, strict=False)
            ]

    def describe(self) -> str:
        """Return a summary."""
        text = f"split {format_bytes(self.n_bytes)} into {counted(self.n_spans - self.n_specials, 'pre-token')}"
        if self.n_specials:
            text += f" and {counted(self.n_specials, 'special token')}"
        if self.shown is not None and self.shown < self.n_spans:
            text += f"; the first {self.shown:,} are shown, and all with `--count 0`"
        return text

    def fields(self) -> dict[str, Any]:
        """Return the totals and the pattern for JSON."""
        totals = {"bytes": self.n_bytes, "pretokens": self.n_spans - self.n_specials, "special_tokens": self.n_specials}
        pattern = self.splitter.pattern
        return {"totals": totals, "pattern": pattern.source, "pattern_name": pattern.name, "pattern_reason": pattern.reason}


def _show_lines(text: _SplitText, sources: list[Source], count: int | None) -> None:
    """Write a line for each of the first `count` pre-tokens, and count the others."""
    text.shown = 0
    for source in sources:
        for spans in text.spans(source, None if count is None else count - text.shown):
            if spans:
                click.echo("\n".join(quoted(span) + ("  special" if is_special else "") for span, is_special in spans))
            text.shown += len(spans)


def _write_json(text: _SplitText, sources: list[Source], count: int | None) -> None:
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
    click.echo(f"], {json.dumps(text.fields())[1:-1]}}}")


def _show_stats(text: _SplitText, sources: list[Source], count: int) -> None:
    """Write the most frequent and the longest pre-tokens, without special tokens."""
    from bpejit.counting.pretoken_counter import PretokenCounter

    counter = PretokenCounter()
    for source in sources:
        for block, first, ends in text.blocks(source):
            counter.add_spans(block, first, ends, ends.size)
    counts = counter.table().to_counts()

    def ranked(size: Callable[[bytes], int]) -> list[bytes]:
        """Return the pre-tokens with the greatest sizes, all of them if `count` is 0."""
        return sorted(counts, key=lambda pretoken: (-size(pretoken), pretoken))[: count or None]

    frequent, longest = ranked(counts.__getitem__), ranked(len)
    if this_command().json:
        found = (
            [{"pretoken": pretoken, "count": counts[pretoken], "bytes": len(pretoken)} for pretoken in pretokens]
            for pretokens in (frequent, longest)
        )
        write_json(distinct_pretokens=len(counts), most_frequent=next(found), longest=next(found), **text.fields())
        return
    write_line(f"{len(counts):,} distinct pre-tokens; the most frequent:")
    _show_table((counts[pretoken], " times", pretoken) for pretoken in frequent)
    write_line("the longest:")
    _show_table((len(pretoken), " bytes", pretoken) for pretoken in longest)


def _show_table(rows: Iterator[tuple[int, str, bytes]]) -> None:
    for number, unit, pretoken in rows:
        shown = quoted(pretoken)
        write_line(f"{number:>12,}{unit}  {shown if len(shown) <= LONGEST_SHOWN else shown[: LONGEST_SHOWN - 3] + '...'}")


def _describe_pattern(pattern: SplitPattern) -> str:
    name = f"the split pattern {pattern.name}" if pattern.name else "the split pattern"
    return pattern.reason or f"{name} runs as a compiled automaton, which is fast"
