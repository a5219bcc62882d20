"""The page of `bpejit report`: one HTML file without references to other files; its figures, whose script draws them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from html import escape
from importlib.resources import files
from itertools import accumulate
from typing import Any

import numpy as np

from bpejit import __version__
from bpejit.arrays import Array, lengths_of
from bpejit.encoding.codec import Codec
from bpejit.inspection.corpus_stats import corpus_stats
from bpejit.inspection.names import short_names
from bpejit.inspection.tables import Row
from bpejit.inspection.token_counts import InputCounts
from bpejit.inspection.token_rows import HUES, TokenRow, html_tokens, token_rows
from bpejit.inspection.visible_text import plain, plain_text, shown, spaces_or
from bpejit.inspection.vocabulary_measures import (
    MergeParts,
    TokenProperties,
    compare_vocabularies,
    compression_points,
    find_suspicious_tokens,
    frequency_points,
    length_points,
    merge_parts,
    superwords_of,
    token_properties,
)
from bpejit.model import Model
from bpejit.splitting.presets import PRESETS
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
    tokens = [model.bytes_of(number) or b"" for number in range(model.vocab_size)]
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


MOST_SHOWN = 100
"""Number of inputs and special tokens that are listed."""

_OF_TEXTS = ("name", "bytes", "words", "tokens", "bytes_per_token")
_OF_SCRIPTS = ("script", "bytes", "characters", "words", "tokens", "bytes_per_token")


def page_figures(models: Mapping[str, Model], counts: Mapping[str, Array], stats: Sequence[Row]) -> Row:
    """Return the figures of a page, from the models and counts of tokenizers by name, and from what `corpus_stats` returns.

    Without a text there are neither counts nor statistics. The figures are `names`; `vocabularies`; `stats`, those of
    `corpus_stats` that are shown; `texts`, the short names of its groups; `frequent`, the most frequent tokens of the first
    tokenizer and their counts; and `curves`, each with the two coordinates of its points for each tokenizer.
    """
    first = next(iter(models.values()))
    curves: dict[str, Iterable[tuple[Array, Array]]] = {"lengths": map(length_points, models.values())}
    texts, frequent = [], []
    if stats:
        n_bytes = stats[0]["total"]["bytes"]
        curves["compression"] = (compression_points(model, counts[name], n_bytes) for name, model in models.items())
        curves["frequencies"] = map(frequency_points, counts.values())
        texts, frequent = short_names([group["name"] for group in stats[0]["groups"]]), stats[0]["most_frequent"]
    return {
        "names": [plain(name) for name in models],
        "vocabularies": [_vocabulary(model, first) for model in models.values()],
        "stats": [_shown_stats(of) for of in stats],
        "texts": list(map(plain, texts)),
        "frequent": [(spaces_or(row["token"], plain_text), row["count"]) for row in frequent],
        "curves": {name: list(map(_coordinates, points)) for name, points in curves.items()},
    }


def _coordinates(points: tuple[Array, Array]) -> list[list[float]]:
    return [of.round(4).tolist() for of in points]


def _vocabulary(model: Model, first: Model) -> Row:
    compared = compare_vocabularies(first, model, n_rows=0)
    return {
        "tokens": len(model.vocab),
        "longest": int(token_properties(model).lengths.max()),
        "specials": len(model.special_tokens),
        "merges": -1 if model.ranked else len(model.merges),
        "shared": compared["shared"],
        "alone": len(compared["only_second"]),
        "rank_correlation": compared["rank_correlation"],
        **superwords_of(model),
    }


def _shown_stats(of: Row) -> Row:
    groups = [{field: row[field] for field in _OF_TEXTS} | {"name": plain(row["name"])} for row in of["groups"]]
    scripts = [{field: row[field] for field in _OF_SCRIPTS} for row in of["scripts"]]
    used = of["total"]["used_tokens"]
    total = {**of["total"], "unused_tokens": of["unused_tokens"], "vocab_share": used / of["vocab_tokens"]}
    words = of["superwords"] or {"share": 0.0, "bytes_per_word_token": total["bytes_per_token"]}
    total |= {"superword_share": words["share"], "bytes_per_word_token": words["bytes_per_word_token"]}
    return {"total": total, "groups": groups, "scripts": scripts, "coverage": of["coverage"], "ranks": of["ranks"]}


def tokenizer_heads(names: Iterable[str]) -> list[str]:
    """Return the names of tokenizers with the marks of their colors, as HTML."""
    return [
        f'<span class="name c{index % 6}" title="{escape(plain(name), quote=True)}">{shown(name)}</span>'
        for index, name in enumerate(names)
    ]


def settings_list(head: str, model: Model) -> str:
    """Return the settings of a tokenizer, after its name as HTML."""
    pattern = PRESETS.get(model.pattern, model.pattern) if isinstance(model.pattern, str) else model.pattern
    patterns = [pattern] if isinstance(pattern, str) else pattern
    name = next((f"{name}: " for name, preset in PRESETS.items() if preset == pattern), "")
    specials = [f"{_code(text)} = {number}" for text, number in model.special_tokens.items()]
    rows = [
        ("SHA-256", _code(model.sha256)),
        ("split pattern", name + "<br>".join(map(_code, patterns))),
        ("Unicode", shown(model.unicode or "that of the installed regex package")),
        ("tie rule", shown(model.tie_break or "not known")),
        ("special tokens", _listed(specials)),
    ]
    if model.pipeline is not None:
        rows += [("normalizer", _code(model.pipeline.normalizer)), ("pre-tokenizer", _code(model.pipeline.pre_tokenizer))]
    rows += [(_words(key), in_words(value)) for key, value in model.training.items()]
    return f"<h3>{head}</h3><dl>{''.join(f'<dt>{name}</dt><dd>{value}</dd>' for name, value in rows)}</dl>"


def in_words(value: Any) -> str:
    """Return a value of JSON as words in HTML: an input by its path and bytes, another object by its fields.

    Examples
    --------
    >>> in_words([{"path": "a.txt", "bytes": 2500}, None, True, {"max_bytes": 7}])
    'a.txt (2,500 bytes), none, yes, max bytes 7'
    """
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return _listed(map(in_words, value))
    if isinstance(value, dict) and value.keys() == {"path", "bytes"}:
        return f"{shown(str(value['path']))} ({in_words(value['bytes'])} bytes)"
    if isinstance(value, dict):
        return _listed(f"{_words(key)} {in_words(of_key)}" for key, of_key in value.items())
    text = str(value)
    return shown(text if len(text) <= 2000 else f"{text[:2000]} ...")


def _code(text: str) -> str:
    return f"<code>{shown(text)}</code>"


def _words(name: object) -> str:
    return shown(str(name).replace("_", " ").replace("pretoken", "pre-token"))


def _listed(parts: Iterable[str]) -> str:
    found = list(parts)
    rest = f" and {len(found) - MOST_SHOWN:,} more" if len(found) > MOST_SHOWN else ""
    return ", ".join(found[:MOST_SHOWN]) + rest or "none"


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
