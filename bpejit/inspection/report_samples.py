"""The texts in colors on the page of `bpejit report`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from bpejit.encoding.codec import Codec
from bpejit.inspection.names import short_names
from bpejit.inspection.report_figures import tokenizer_heads
from bpejit.inspection.tables import Row
from bpejit.inspection.token_rows import HUES, TokenRow, html_tokens, token_rows
from bpejit.inspection.visible_text import shown
from bpejit.utf8 import is_utf8

SAMPLES = (
    "The quick brown fox jumps over 12345 lazy dogs.\n",
    "自然语言处理是人工智能的一个分支。\n",
    "معالجة اللغات الطبيعية فرع من الذكاء الاصطناعي.\n",
    'def greet(name):\n    return f"Hello, {name}!"\n',
)
"""Texts that are shown if there are no inputs."""

MOST_PARTS = 8
"""Tokens that may share characters; more show their bytes, as those of a text that is not valid UTF-8."""


def colored_samples(codecs: Mapping[str, Codec], samples: Mapping[str, bytes], differing: Sequence[Row]) -> str:
    """Return the tokens of texts in colors, with each of several tokenizers, which are given as in `report_page`."""
    titles = short_names(list(samples))
    parts = [_each(codecs, text, title) for title, text in zip(titles, samples.values(), strict=True)]
    parts = parts or [_each(codecs, text.encode(), "") for text in SAMPLES]
    if differing:
        first, second = map(shown, list(codecs)[:2])
        parts.append(f"<h3>Texts that {first} and {second} encode most differently</h3>")
        paths = short_names([entry["path"] for entry in differing])
        parts += [_each(codecs, entry["text"], name) for entry, name in zip(differing, paths, strict=True)]
    return "".join(parts)


def _each(codecs: Mapping[str, Codec], text: bytes, title: str) -> str:
    """Return the tokens of a text for each tokenizer."""
    tokens = [token_rows(codec, text) for codec in codecs.values()]
    fewest = min(map(len, tokens))
    parts = [
        f'<h4><span class="path">{shown(title)}</span> <span class="quiet">{len(text):,} bytes</span></h4><div class="each">'
    ]
    for head, rows in zip(tokenizer_heads(codecs), tokens, strict=True):
        mark = ' class="best"' if len(rows) == fewest < max(map(len, tokens)) else ""
        parts.append(f'<div><p class="quiet">{head}<span{mark}>{len(rows):,} tokens</span></p>')
        parts.append(f'<div class="sample" dir="auto">{_colored(rows)}</div></div>')
    return "".join([*parts, "</div>"])


def _colored(rows: Sequence[TokenRow]) -> str:
    """Return tokens as HTML; those that share a character are one element with the color of each."""
    groups = list(_whole_characters(rows))
    starts = list(accumulate(map(len, groups), initial=0))

    def attributes(index: int, row: TokenRow) -> str:
        group = groups[index]
        if len(group) == 1:
            return f'class="t {"ts" if row.special else f"t{starts[index] % len(HUES)}"}" title="id {row.id}"'
        colors = [f"var(--t{(starts[index] + at) % len(HUES)})" for at in range(len(group))]
        stops = (f"{color} {100 * at // len(group)}% {100 * (at + 1) // len(group)}%" for at, color in enumerate(colors))
        ids = ", ".join(str(one.id) for one in group)
        return f'class="t" style="background:linear-gradient(90deg,{",".join(stops)})" title="ids {ids}"'

    return html_tokens([group[0]._replace(data=_joined(group)) for group in groups], attributes)


def _whole_characters(rows: Sequence[TokenRow]) -> Iterator[list[TokenRow]]:
    """Yield tokens in groups that have whole characters: mostly a single one, or all that share characters."""
    group: list[TokenRow] = []
    for row in rows:
        group.append(row)
        if is_utf8(_joined(group)):
            yield group
            group = []
        elif len(group) == MOST_PARTS:
            yield from ([one] for one in group)
            group = []
    yield from ([one] for one in group)


def _joined(group: Sequence[TokenRow]) -> bytes:
    return b"".join(row.data for row in group)
