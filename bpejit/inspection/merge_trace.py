"""The steps of learning merges as text, in notebooks and as a page. `bpejit.explain` records them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

from rich.cells import cell_len

from bpejit.inspection.report_page import filled_page, page_file
from bpejit.inspection.token_rows import HUES, SEPARATOR
from bpejit.inspection.visible_text import html_text, plain_text
from bpejit.progress_bar import counted

Record = dict[str, Any]
"""What a step did, for JSON."""

SHOWN_PAIRS = 12
"""Number of pairs that a row, or a bucket in it, shows."""

LABEL_WIDTH, WIDTH = 10, 70
"""Columns of the names of rows, and of what is beside them."""

GAP = "   "
"""Between the items of a row."""


class Item(NamedTuple):
    """A part of a row: tokens, and what is written before and after them; `marked` if it is new."""

    before: str = ""
    tokens: Sequence[str] = ()
    after: str = ""
    marked: bool = False

    def data(self) -> list[bytes]:
        """Return the tokens as bytes."""
        return [token.encode("utf-8", "surrogateescape") for token in self.tokens]

    def plain(self, mark: str) -> str:
        """Return the item as text, with a separator between tokens, and, if that is a box line, open boxes for spaces."""
        tokens = mark.join(plain_text(token, mark) for token in self.data())
        if mark == SEPARATOR:
            tokens = tokens.replace(" ", "\u2423")
        return self.before + tokens + self.after

    def html(self) -> str:
        """Return the item as HTML."""
        tokens = [f'<span class="t t{n % len(HUES)}">{html_text(token)}</span>' for n, token in enumerate(self.data())]
        before = f"<b>{escape(self.before)}</b>" if tokens else escape(self.before)
        kind = "item marked" if self.marked else "item"
        return f'<span class="{kind}">{before}{"".join(tokens)}{escape(self.after)}</span>'


Row = tuple[str, list[Item]]
"""The name of a row, and its items."""


class MergeTrace:
    """The steps of learning merges, as returned by `bpejit.explain`. Printed as text; notebooks show them in colors."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def to_dict(self) -> Record:
        """Return the record of all steps, for JSON, with the fields of `bpejit explain --json` (see docs/commands.md)."""
        return self._record

    def groups(self) -> Iterator[list[Row]]:
        """Yield the rows of each step: the words, the merges, and a summary."""
        record = self._record
        merges = record["merges"]
        n_words, runs = record["n_words"], record["runs"]
        tie_rule = f"{record['tie_break']}: {record['tie_rule']}"
        yield [("words", _word_items(record["words"], n_words))]
        for number, merge in enumerate(merges, start=1):
            if runs is not None and number == record["merges_of_words"] + 1:
                n_words = record["n_runs"]
                what = Item("words next to each other that are one token each, in place of words")
                yield [("runs", [what]), ("words", _word_items(runs, n_words))]
            yield list(_merge_rows(number, merge, tie_rule, n_words))
        rest = "nothing is left to merge" if record["complete"] else "there may be pairs left"
        listed = sum(merge["listed"] for merge in merges)
        stale = sum(merge["stale"] for merge in merges)
        written = f"{counted(record['lists'], 'list')} with {counted(record['entries'], 'word')}"
        read = f"the merges read {counted(len(merges), 'list')} with {listed:,}, {stale:,} stale"
        yield [
            ("end", [Item(f"{counted(len(merges), 'merge')}; {rest}")]),
            ("index", [Item(f"{written}; {read}")]),
        ]

    def lines(self, mark: str) -> Iterator[Row]:
        """Yield the lines of the text: the name of a row or nothing, and items. An empty line is between steps."""
        for number, rows in enumerate(self.groups()):
            if number:
                yield "", []
            for label, items in rows:
                shown = [_fitting(item, mark) for item in items] if label == "words" else items
                for part, line in enumerate(_wrapped(shown, mark)):
                    yield "" if part else label, line

    def __repr__(self) -> str:
        return "\n".join(plain_line(label, items, SEPARATOR) for label, items in self.lines(SEPARATOR))

    def _repr_html_(self) -> str:
        steps = "<hr>".join(map(_html_rows, self.groups()))
        return f'<style>{page_file("trace.css")}</style><div class="bpejit-trace">{steps}</div>'

    def page(self) -> str:
        """Return an HTML page that shows one step at a time. It loads nothing."""
        steps = "".join(f"<section>{_html_rows(rows)}</section>" for rows in self.groups())
        values = {"title": "How merges are learned", "steps": steps}
        return filled_page("trace.html", values, "report.css", "trace.css", "trace.js")


def _merge_rows(number: int, merge: Record, tie_rule: str, n_words: int) -> Iterator[Row]:
    becomes = Item("becomes ", [merge["token"]], f", {counted(merge['count'], 'time')}", marked=True)
    yield f"merge {number}", [Item(tokens=merge["pair"], marked=True), becomes]
    buckets: list[Item] = []
    for bucket in merge["buckets"]:
        buckets += _bucket_items(bucket)
    yield "buckets", buckets
    if merge["tied"]:
        yield "tied", _folded([Item(tokens=pair) for pair in merge["tied"]])
        yield "why", [Item(tie_rule)]
    yield "index", [Item(f"lists {counted(merge['listed'], 'word')}, {merge['stale']:,} stale")]
    yield "words", _word_items(merge["words"], n_words)
    fallen: list[Item] = []
    new: list[Item] = []
    for change in merge["changes"]:
        before, count = change["before"], change["count"]
        if before:
            fallen.append(Item(tokens=change["pair"], after=f" {before:,} to {count:,}"))
        else:
            new.append(Item(tokens=change["pair"], after=f" {count:,}", marked=True))
    if fallen:
        yield "fewer", _folded(fallen)
    if new:
        yield "new", _folded(new)


def _bucket_items(bucket: Record) -> list[Item]:
    """Return the pairs of a bucket, with the counts of those that belong to a lower one; its count is before the first."""
    items: list[Item] = []
    for entry in bucket["pairs"]:
        now = "" if entry["count"] == bucket["count"] else f" (now {entry['count']:,})"
        before = "" if items else f"{bucket['count']:,}: "
        items.append(Item(before, entry["pair"], now))
    return _folded(items)


def _word_items(words: list[Record], total: int) -> list[Item]:
    items = [Item(tokens=word["tokens"], after=f" {word['count']:,}", marked=word["changed"]) for word in words]
    return items + _others(total - len(items), "word")


def _folded(items: list[Item]) -> list[Item]:
    """Return the first items, and the number of the others in words."""
    return items[:SHOWN_PAIRS] + _others(len(items) - SHOWN_PAIRS, "pair")


def _others(number: int, what: str) -> list[Item]:
    if number <= 0:
        return []
    return [Item(f"and {counted(number, f'more {what}')}")]


def plain_line(label: str, items: Sequence[Item], mark: str) -> str:
    """Return a line of `MergeTrace.lines` as text."""
    return f"{label:<{LABEL_WIDTH}}{GAP.join(item.plain(mark) for item in items)}".rstrip()


def _fitting(item: Item, mark: str) -> Item:
    """Return a word as it has space in a line: with all of its tokens, or the first ones and dots."""
    fitting, kept = item, min(len(item.tokens), WIDTH)
    while kept > 1 and cell_len(fitting.plain(mark)) > WIDTH:
        kept -= 1
        fitting = item._replace(tokens=item.tokens[:kept], after=f" ...{item.after}")
    return fitting


def _wrapped(items: list[Item], mark: str) -> Iterator[list[Item]]:
    """Divide the items of a row into lines; a text alone is divided between words."""
    if len(items) == 1 and not items[0].tokens:
        yield from ([Item(line)] for line in textwrap.wrap(items[0].before, WIDTH))
        return
    line: list[Item] = []
    for item in items:
        width = cell_len(plain_line("", [*line, item], mark))
        if line and width > LABEL_WIDTH + WIDTH:
            yield line
            line = []
        line.append(item)
    yield line


def _html_rows(rows: Sequence[Row]) -> str:
    parts = []
    for label, items in rows:
        content = "".join(item.html() for item in items)
        parts.append(f'<div class="line {label.split()[0]}"><b>{label}</b><div class="items">{content}</div></div>')
    return "".join(parts)
