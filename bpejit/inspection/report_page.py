"""The page of `bpejit report`: one HTML file without references to other files, and its data."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from html import escape
from importlib.resources import files
from itertools import accumulate

import numpy as np

from bpejit import __version__
from bpejit.arrays import Array, lengths_of
from bpejit.encoding.codec import Codec
from bpejit.inspection.corpus_stats import corpus_stats
from bpejit.inspection.names import short_names
from bpejit.inspection.report_figures import page_figures, settings_list, tokenizer_heads
from bpejit.inspection.tables import Row
from bpejit.inspection.token_counts import InputCounts
from bpejit.inspection.token_rows import HUES, TokenRow, html_tokens, token_bytes, token_rows
from bpejit.inspection.visible_text import plain, shown
from bpejit.inspection.vocabulary_measures import (
    MergeParts,
    TokenProperties,
    find_suspicious_tokens,
    merge_parts,
    token_properties,
)
from bpejit.model import Model
from bpejit.utf8 import is_utf8

TITLES = {
    "special": "special token",
    "partial": "starts or ends inside a character",
    "unreachable": "never produced: its text is encoded as other tokens",
    "mojibake": "damaged text (mojibake or replacement characters)",
    "long": "very long: 32 bytes or more",
    "private": "like private data: an address, a number or a key",
    "control": "control or invisible characters",
}

KINDS = tuple(TITLES)
"""Kinds of tokens: bits of their flags, from the lowest."""


def token_flags(properties: TokenProperties, suspicious: dict[str, Array]) -> Array:
    """Return the kinds of all tokens, as uint8 [vocab_size] of bits."""
    flags = np.zeros(properties.lengths.size, np.uint8)
    chosen = {**properties._asdict(), **suspicious}
    for bit, kind in enumerate(KINDS):
        flags[chosen[kind]] |= np.uint8(1 << bit)
    return flags


def pack_arrays(
    model: Model, flags: Array, parts: MergeParts, counts: Array | None, others: Sequence[Codec]
) -> tuple[dict[str, tuple[str, int, int]], str]:
    """Pack the arrays of the table of tokens.

    Returns
    -------
    directory : dict of str to (str, int, int)
        For each array, its type, the position of its first byte, and its length.
    block : str
        The arrays, little-endian, compressed by zlib, in base64. The bytes of an array of integers are in order of their
        significance, which compresses better. `pool` and `lengths` have the bytes of tokens that are not merged from others.
        `other0` has the ids of the tokens that the first of `others` has too, which `shared0` marks.
    """
    tokens = [token_bytes(model, number) for number in range(model.vocab_size)]
    single = [b"" if left >= 0 else token for token, left in zip(tokens, parts.left.tolist(), strict=True)]
    arrays: dict[str, tuple[str, Array]] = {
        "pool": ("u1", np.frombuffer(b"".join(single), np.uint8)),
        "lengths": ("i4", lengths_of(single)),
        "flags": ("u1", flags),
        "left": ("i4", parts.left),
        "right": ("i4", parts.right),
    }
    if counts is not None:
        arrays["counts"] = ("i4" if int(counts.max(initial=0)) < 1 << 31 else "f8", counts)
    for index, other in enumerate(others):
        ids = {**other.model.ids, **other.model.special_ids}
        found = np.array([ids.get(token, -1) for token in tokens])
        arrays[f"shared{index}"] = ("u1", found >= 0)
        arrays[f"other{index}"] = ("i4", found[found >= 0])
    directory: dict[str, tuple[str, int, int]] = {}
    block = bytearray()
    for name, (dtype, values) in arrays.items():
        directory[name] = dtype, len(block), int(values.size)
        of_values = np.frombuffer(values.astype(np.dtype(dtype).newbyteorder("<")).tobytes(), np.uint8)
        block += of_values.reshape(values.size, -1).T.tobytes()
    return directory, base64.b64encode(zlib.compress(bytes(block), 9)).decode("ascii")


def script_json(value: object) -> str:
    """Return JSON that is safe inside a script element: it has no `<`, `>` or `&`."""
    text = json.dumps(value, ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


N_FREQUENT = 16
"""Number of the most frequent tokens that are drawn."""


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


def report_page(
    codecs: Mapping[str, Codec], counts: Sequence[InputCounts], samples: Mapping[str, bytes], differing: Sequence[Row] = ()
) -> str:
    """Return the page about one tokenizer, compared with others.

    Parameters
    ----------
    codecs : mapping of str to Codec
        By name of the tokenizer. The table of tokens is about the first.
    counts : sequence of InputCounts
        Of each tokenizer; empty if there are no inputs.
    samples : mapping of str to bytes
        Texts to show in colors, by label or file; by default `SAMPLES`.
    differing : sequence of dict
        Texts that the first two tokenizers encode most differently.

    Returns
    -------
    str
        HTML. It loads nothing: its policy forbids all requests, and all scripts but its own.
    """
    models = {name: codec.model for name, codec in codecs.items()}
    stats = []
    dense = {}
    for (name, model), found in zip(models.items(), counts, strict=False):
        stats.append(corpus_stats(model, found, n_shown=N_FREQUENT))
        dense[name] = found.total.dense(model.vocab_size)
    first, *others = codecs.values()
    name, model = next(iter(models.items()))
    flags = token_flags(token_properties(model), find_suspicious_tokens(first))
    directory, block = pack_arrays(model, flags, merge_parts(model), dense.get(name), others)
    meta = {"arrays": directory, "kinds": KINDS, "titles": TITLES, **page_figures(models, dense, stats)}
    heads = tokenizer_heads(models)
    against = f" compared with {' and '.join(heads[1:])}" if others else ""
    values = {
        "title": f"{escape(plain(name))}: tokenizer report",
        "heads": heads[0] + against,
        "name": shown(name),
        "samples": colored_samples(codecs, samples, differing),
        "settings": "".join(map(settings_list, heads, models.values())),
        "version": __version__,
        "date": f"{date.today():%d %B %Y}".lstrip("0"),
        "meta": script_json(meta),
        "data": block,
    }
    return filled_page("page.html", values, "report.css", "figures.js", "charts.js", "report.js")


def page_file(name: str) -> str:
    """Return the text of a file in the folder `page`."""
    return files("bpejit.inspection").joinpath("page", name).read_text("utf-8")


def filled_page(template: str, values: dict[str, str], *names: str) -> str:
    """Return a page: the head of all and a template, with values for their names, styles, and scripts, which alone may run."""
    script = "".join(page_file(name) for name in names if name.endswith(".js"))
    values["script"] = script
    values["digest"] = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    values["style"] = "".join(page_file(name) for name in names if name.endswith(".css"))
    page = page_file("head.html") + page_file(template)
    return re.sub(r"\{\{(\w+)\}\}", lambda place: values[place[1]], page)
