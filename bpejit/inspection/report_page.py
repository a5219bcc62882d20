"""The page of `bpejit report`: one HTML file without references to other files, and its data."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape, unescape
from importlib.resources import files
from typing import Any

import numpy as np

from bpejit.arrays import Array, lengths_of
from bpejit.encoding.codec import Codec
from bpejit.inspection import plots
from bpejit.inspection.corpus_stats import corpus_stats
from bpejit.inspection.tables import Row, cell, figure, table
from bpejit.inspection.token_counts import InputCounts
from bpejit.inspection.token_rows import HUES, TokenRow, html_tokens, token_bytes, token_rows
from bpejit.inspection.visible_text import html_text, plain_text
from bpejit.inspection.vocabulary_measures import (
    MergeParts,
    TokenProperties,
    compare_vocabularies,
    find_suspicious_tokens,
    merge_parts,
    token_properties,
)
from bpejit.model import Model

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

_ALIGNMENT = 8


def token_flags(properties: TokenProperties, suspicious: dict[str, Array]) -> Array:
    """Return the kinds of all tokens, as uint8 [vocab_size] of bits."""
    flags = np.zeros(properties.lengths.size, dtype=np.uint8)
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
        The arrays, little-endian, compressed by zlib, in base64.
    """
    tokens = [token_bytes(model, number) for number in range(model.vocab_size)]
    lengths = lengths_of(tokens)
    arrays: dict[str, tuple[str, Array]] = {
        "pool": ("u1", np.frombuffer(b"".join(tokens), dtype=np.uint8)),
        "lengths": ("u2" if int(lengths.max(initial=0)) < 1 << 16 else "u4", lengths),
        "flags": ("u1", flags),
        "left": ("i4", parts.left),
        "right": ("i4", parts.right),
    }
    if counts is not None:
        arrays["counts"] = ("u4" if int(counts.max(initial=0)) < 1 << 32 else "f8", counts)
    for index, other in enumerate(others):
        ids = {**other.model.ids, **other.model.special_ids}
        arrays[f"other{index}"] = ("i4", np.array([ids.get(token, -1) for token in tokens]))
    directory: dict[str, tuple[str, int, int]] = {}
    block = bytearray()
    for name, (dtype, values) in arrays.items():
        block.extend(bytes(-len(block) % _ALIGNMENT))
        directory[name] = dtype, len(block), int(values.size)
        block += values.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    return directory, base64.b64encode(zlib.compress(bytes(block), 6)).decode("ascii")


def script_json(value: object) -> str:
    """Return JSON that is safe inside a script element: it has no `<`, `>` or `&`."""
    text = json.dumps(value, ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


N_EXAMPLES = 24
"""Number of tokens of each kind that are shown outside the table."""

MOST_GROUPS = 40
"""Number of files or labels that are plotted."""

SAMPLES = (
    "The quick brown fox jumps over 12345 lazy dogs.\n",
    "自然语言处理是人工智能的一个分支。\n",
    "معالجة اللغات الطبيعية فرع من الذكاء الاصطناعي.\n",
    'def greet(name):\n    return f"Hello, {name}!"\n',
)
"""Texts that are shown if there are no inputs."""


SUMMARY = {
    "bytes of text": "bytes",
    "tokens of the text": "tokens",
    "bytes per token": "bytes_per_token",
    "characters per token": "characters_per_token",
    "words per token": "words_per_token",
    "tokens used": "used_tokens",
    "tokens unused": "unused_tokens",
    "single bytes": "single_byte_share",
    "parts of characters": "partial_share",
    "entropy": "entropy",
    "Renyi efficiency": "renyi_efficiency",
}
"""The figures of the summary, and their fields in `corpus_stats`."""


@dataclass(frozen=True)
class ReportedTokenizer:
    """A tokenizer of a report.

    Parameters
    ----------
    name : str
        Shown in tables and plots; different from those of the others.
    codec : Codec
    counts : InputCounts, optional
        None if there are no inputs.
    """

    name: str
    codec: Codec
    counts: InputCounts | None

    @property
    def model(self) -> Model:
        """The model of the tokenizer."""
        return self.codec.model

    def dense_counts(self) -> Array:
        """Return the number of occurrences of each token, as int64 [vocab_size]."""
        size = self.model.vocab_size
        return np.zeros(size, dtype=np.int64) if self.counts is None else self.counts.total.dense(size)


_Tokenizers = Sequence[ReportedTokenizer]


def report_page(tokenizers: _Tokenizers, samples: Sequence[bytes], differing: Sequence[Row] = ()) -> str:
    """Return the page about one tokenizer, compared with others.

    Parameters
    ----------
    tokenizers : sequence of ReportedTokenizer
        The table of tokens is about the first.
    samples : sequence of bytes
        Texts to show in colors; by default `SAMPLES`.
    differing : sequence of dict
        Texts that the first two tokenizers encode most differently.

    Returns
    -------
    str
        HTML. It loads nothing: its policy forbids all requests, and all scripts but its own.
    """
    first = tokenizers[0]
    stats = [corpus_stats(entry.model, entry.counts) for entry in tokenizers if entry.counts is not None]
    properties = token_properties(first.model)
    suspicious = find_suspicious_tokens(first.codec)
    flags = token_flags(properties, suspicious)
    counts = None if first.counts is None else first.dense_counts()
    others = [entry.codec for entry in tokenizers[1:]]
    directory, block = pack_arrays(first.model, flags, merge_parts(first.model), counts, others)
    names = [_shown(entry.name) for entry in tokenizers]
    meta = {"arrays": directory, "kinds": KINDS, "titles": TITLES, "others": [entry.name for entry in tokenizers[1:]]}
    script, style = (
        files("bpejit.inspection").joinpath("page", name).read_text("utf-8") for name in ("report.js", "report.css")
    )
    sections = [
        ("summary", "Summary", _summary(tokenizers, stats, names)),
        ("plots", "Plots", "".join(_figures(tokenizers, stats))),
        ("texts", "Texts", _groups(stats, names)),
        ("tokens", "Tokens", _browser(tokenizers, names)),
        ("suspicious", "Unused and suspicious", _suspicious(first, flags, counts)),
        ("samples", "Sample texts", _samples(tokenizers, samples, differing, names)),
        ("settings", "Settings and hashes", _settings(tokenizers, names)),
    ]
    sections = [section for section in sections if section[2]]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n',
        f"<title>{escape(_plain(first.name))}: tokenizer report</title>\n<style>\n{style}</style>\n</head>\n<body>\n",
        f"<h1>{' and '.join(names)}</h1>\n<nav>",
        *(f'<a href="#{name}">{title}</a>' for name, title, _ in sections),
        "</nav>\n<main>\n",
        *(f'<section id="{name}">\n<h2>{title}</h2>\n{content}\n</section>\n' for name, title, content in sections),
        f'</main>\n<script type="application/json" id="meta">{script_json(meta)}</script>\n',
        f'<script type="text/plain" id="data">{block}</script>\n<script>{script}</script>\n</body>\n</html>\n',
    ]
    return "".join(parts)


def _shown(text: str) -> str:
    """Return text as HTML, with escapes of characters that are not printable."""
    return html_text(text.encode("utf-8", "surrogateescape"))


def _plain(text: str) -> str:
    return plain_text(text.encode("utf-8", "surrogateescape"))


def _table(rows: Iterable[Sequence[str]], *, kind: str = "stack") -> str:
    """Return a table of HTML cells; the first row is the head. On narrow screens each cell has a line of its own."""
    head, *body = rows
    lines = [f'<table class="{kind}"><thead><tr>', *(f'<th scope="col">{cell}</th>' for cell in head), "</tr></thead><tbody>"]
    for row in body:
        cells = (
            f'<td data-label="{escape(_text_of(label), quote=True)}">{cell}</td>' for label, cell in zip(head, row, strict=True)
        )
        lines += ["<tr>", *cells, "</tr>"]
    return "".join([*lines, "</tbody></table>"])


def _text_of(html: str) -> str:
    """Return the text of HTML that has no elements but `<i>`."""
    return unescape(html.replace("<i>", "").replace("</i>", ""))


def _summary(tokenizers: _Tokenizers, stats: Sequence[Row], names: Sequence[str]) -> str:
    models = [entry.model for entry in tokenizers]
    rows = [("", *names), ("tokens", *(f"{len(model.vocab):,}" for model in models))]
    rows.append(("special tokens", *(f"{len(model.special_tokens):,}" for model in models)))
    rows.append(("merges", *("by rank" if model.ranked else f"{len(model.merges):,}" for model in models)))
    if len(models) > 1:
        found = [compare_vocabularies(models[0], model, n_rows=0) for model in models]
        rows.append((f"shared with {names[0]}", *(f"{entry['shared']:,}" for entry in found)))
        rows.append(("alone, without those shared", *(f"{len(entry['only_second']):,}" for entry in found)))
        rows.append(("rank correlation", *(cell(entry, "rank_correlation") for entry in found)))
    figures = [{**of["total"], "unused_tokens": of["unused_tokens"]} for of in stats]
    rows += [(title, *(cell(row, field) for row in figures)) for title, field in SUMMARY.items() if stats]
    return _table(rows)


def _figures(tokenizers: _Tokenizers, stats: Sequence[Row]) -> Iterator[str]:
    models = {entry.name: entry.model for entry in tokenizers}
    drawn = [("Tokens by length", lambda: plots.plot_lengths(models))]
    if stats:
        known = {entry.name: figures for entry, figures in zip(tokenizers, stats, strict=True)}
        counts = {entry.name: entry.dense_counts() for entry in tokenizers}
        n_bytes = stats[0]["total"]["bytes"]
        drawn.insert(0, ("Compression against vocabulary size", lambda: plots.plot_compression(models, counts, n_bytes)))
        drawn.append(("Frequency against rank", lambda: plots.plot_frequencies(counts)))
        for table, key, what in (("groups", "name", "text"), ("scripts", "script", "script")):
            shown = [row[key] for row in stats[0][table][:MOST_GROUPS]]
            ratios = {name: {row[key]: row["bytes_per_token"] or 0.0 for row in of[table]} for name, of in known.items()}
            bars = {name: [values.get(one, 0.0) for one in shown] for name, values in ratios.items()}
            if shown:
                drawn.append((f"Bytes per token of each {what}", partial(plots.plot_groups, bars, shown)))
    yield '<div class="plots">'
    for title, draw in drawn:
        yield f"<figure>{plots.svg_of(draw, title)}<figcaption>{title}</figcaption></figure>"
    yield "</div>"


def _groups(stats: Sequence[Row], names: Sequence[str]) -> str:
    if not stats:
        return ""
    of_each = [f"bytes per token, {name}" for name in names]
    rows = [("text", "bytes", "words", *of_each, "parts of characters")]
    for group, *others in zip(*(of["groups"] for of in stats), strict=True):
        ratios = [cell(other, "bytes_per_token") for other in (group, *others)]
        shown = _shown(group["name"])
        rows.append((shown, cell(group, "bytes"), cell(group, "words"), *ratios, cell(group, "partial_share")))
    parts = [_table(rows)]
    if stats[0]["scripts"]:
        fields = ("script", "bytes", "characters", "words")
        scripts = [(*fields, *of_each)]
        found = [{entry["script"]: entry for entry in of["scripts"]} for of in stats]
        for script, entry in found[0].items():
            each = (figure(of[script]["bytes_per_token"] if script in of else None) for of in found)
            scripts.append((*(cell(entry, field) for field in fields), *each))
        parts.append("<h3>Scripts</h3>" + _table(scripts))
    ranks = table(stats[0]["ranks"], ("ids", "tokens", "used_share", "share"), ("ids", "tokens", "used", "share of the text"))
    frequent = table(stats[0]["coverage"], ("tokens", "share"), ("tokens, the most frequent", "share of the text"))
    parts.append(f"<h3>Coverage by rank</h3>{_table(ranks)}<h3>Most frequent tokens</h3>{_table(frequent)}")
    return "".join(parts)


def _browser(tokenizers: _Tokenizers, names: Sequence[str]) -> str:
    has_counts = tokenizers[0].counts is not None
    heads = [("id", "id", "72px"), ("token", "token", "minmax(0, 1fr)"), ("bytes", "bytes", "60px")]
    heads += [("count", "count", "96px")] if has_counts else []
    narrow = " ".join(width for _, _, width in heads)
    buttons = [f'<button type="button" data-key="{key}" data-title="{title}">{title}</button>' for key, title, _ in heads]
    for index, name in enumerate(names[1:]):
        label = escape(_text_of(name), quote=True)
        buttons.append(
            f'<button type="button" class="wide" data-key="other{index}" data-title="id in {label}">id in {label}</button>'
        )
    columns = narrow + " 110px" * (len(names) - 1)
    options = [("all", "all tokens"), *([("used", "used"), ("unused", "unused")] if has_counts else []), *TITLES.items()]
    chosen = "".join(f'<option value="{value}">{escape(title)}</option>' for value, title in options)
    return (
        f"<style>.grid {{ --columns: {columns}; }} @media (max-width: 640px) {{ .grid {{ --columns: {narrow}; }} }}</style>"
        f'<p class="quiet">The tokens of {names[0]}. Search for text, bytes such as \\xe4, or an id such as #123; '
        "the key / moves to the search. In the table, the arrow keys move, and Enter or a click shows the merges.</p>"
        '<div class="controls"><input id="search" type="search" placeholder="search" aria-label="Search tokens" '
        f'autocomplete="off" spellcheck="false"><select id="filter" aria-label="Filter tokens">{chosen}</select></div>'
        '<div id="status" role="status" aria-live="polite" class="quiet"></div>'
        f'<div class="browser"><div class="grid"><div class="heads">{"".join(buttons)}</div>'
        '<div id="rows" role="grid" tabindex="0" aria-label="Tokens"><div id="spacer" class="spacer"></div></div></div>'
        '<div id="detail" aria-live="polite"><span class="quiet">No token is selected.</span></div></div>'
    )


def _suspicious(first: ReportedTokenizer, flags: Array, counts: Array | None) -> str:
    kinds: list[tuple[str, str, Array]] = []
    in_use = token_properties(first.model).lengths > 0
    if counts is not None:
        kinds.append(("unused", "not used in these texts", np.flatnonzero(in_use & (counts == 0))))
    for bit, kind in enumerate(KINDS):
        if kind not in ("special", "partial"):
            kinds.append((kind, TITLES[kind], np.flatnonzero(flags & (1 << bit))))
    parts = []
    for kind, title, ids in kinds:
        title = f"<h3>{escape(title[0].upper() + title[1:])}: {ids.size:,}</h3>"
        examples = "".join(
            f'<button type="button" class="link" data-token="{number}">{html_text(token)}</button>'
            for number, token in ((number, token_bytes(first.model, number)[:120]) for number in ids[:N_EXAMPLES].tolist())
        )
        more = f'<button type="button" data-filter="{kind}">show in the table</button>' if ids.size else ""
        parts.append(f'{title}<div class="links">{examples}{more}</div>')
    return "".join(parts)


def _samples(tokenizers: _Tokenizers, samples: Sequence[bytes], differing: Sequence[Row], names: Sequence[str]) -> str:
    texts = samples or [sample.encode() for sample in SAMPLES]
    parts = [_colored(tokenizers, text, names) for text in texts]
    if differing:
        parts.append(f"<h3>Texts that {names[0]} and {names[1]} encode most differently</h3>")
        parts += [_colored(tokenizers, entry["text"], names) for entry in differing]
    return "".join(parts)


def _colored(tokenizers: _Tokenizers, text: bytes, names: Sequence[str]) -> str:
    parts = []
    for entry, name in zip(tokenizers, names, strict=True):
        rows = token_rows(entry.codec, text)
        title = f"{name}: {len(rows):,} tokens, {len(text):,} bytes"
        parts.append(f'<p class="quiet">{title}</p><div class="sample" dir="auto">{html_tokens(rows, _attributes)}</div>')
    return "".join(parts)


def _attributes(index: int, row: TokenRow) -> str:
    kind = "ts" if row.special else f"t{index % len(HUES)}"
    return f'class="t {kind}" title="id {row.id}"'


def _settings(tokenizers: _Tokenizers, names: Sequence[str]) -> str:
    parts = []
    for entry, name in zip(tokenizers, names, strict=True):
        model = entry.model
        patterns = [model.pattern] if isinstance(model.pattern, str) else list(model.pattern)
        rows = [("setting", "value"), ("SHA-256", f"<code>{escape(model.sha256)}</code>")]
        rows.append(("split pattern", "<br>".join(f"<code>{_shown(pattern)}</code>" for pattern in patterns)))
        rows.append(("Unicode", escape(model.unicode or "that of the installed regex package")))
        rows.append(("tie rule", escape(model.tie_break or "not known")))
        specials = (f"<code>{_shown(text)}</code> = {number}" for text, number in list(model.special_tokens.items())[:100])
        rows.append(("special tokens", ", ".join(specials) or "none"))
        if model.pipeline is not None:
            rows.append(("normalizer", f"<code>{_shown(model.pipeline.normalizer)}</code>"))
            rows.append(("pre-tokenizer", f"<code>{_shown(model.pipeline.pre_tokenizer)}</code>"))
        rows += [(_shown(str(key)), f"<code>{_shown(_note(value))}</code>") for key, value in model.training.items()]
        parts.append(f"<h3>{name}</h3>{_table(rows, kind='stack text')}")
    return "".join(parts)


def _note(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 2000 else f"{text[:2000]} ..."
