"""The figures and settings on the page of `bpejit report`: its headline and its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape, unescape
from typing import Any

from bpejit.inspection.tables import Row, cell, figure, percent
from bpejit.inspection.visible_text import plain, shown
from bpejit.inspection.vocabulary_measures import compare_vocabularies, token_properties
from bpejit.model import Model
from bpejit.splitting.presets import PRESETS

Models = Mapping[str, Model]
"""The models of a report by name; the first is the one that the report is about."""

MOST_SHOWN = 100
"""Number of inputs and special tokens that are listed."""

Best = Callable[[Iterable[float]], float] | None
"""Selects the best value of a row: `min`, `max`, or None if there is none."""

ON_THE_TEXT: tuple[tuple[str, str, Best], ...] = (
    ("bytes of text", "bytes", None),
    ("tokens of the text", "tokens", min),
    ("bytes per token", "bytes_per_token", max),
    ("characters per token", "characters_per_token", max),
    ("words per token", "words_per_token", max),
    ("single bytes", "single_byte_share", min),
    ("parts of characters", "partial_share", min),
    ("entropy", "entropy", None),
    ("Renyi efficiency", "renyi_efficiency", max),
    ("vocabulary used", "vocab_share", max),
    ("tokens used", "used_tokens", None),
    ("tokens unused", "unused_tokens", None),
)
"""The figures of the text: title, field, and which value is the best."""


def totals(stats: Sequence[Row]) -> list[Row]:
    """Return the figures of the whole text for each tokenizer, with those about its vocabulary."""
    found = []
    for of in stats:
        share = of["total"]["used_tokens"] / of["vocab_tokens"]
        found.append({**of["total"], "unused_tokens": of["unused_tokens"], "vocab_share": share})
    return found


def tokenizer_heads(names: Iterable[str]) -> list[str]:
    """Return the names of tokenizers with the marks of their colors, as HTML."""
    return [
        f'<span class="name c{index % 6}" title="{escape(plain(name), quote=True)}">{shown(name)}</span>'
        for index, name in enumerate(names)
    ]


def html_table(rows: Iterable[Sequence[str]], *, kind: str = "stack") -> str:
    """Return a table of HTML cells; the first row is the head, and a row with one cell a title in between.

    A table of the kind `stack` has a line for each cell on narrow screens, and one of the kind `values` a line for each row.
    """
    head, *body = rows
    lines = [f'<table class="{kind}" style="--n: {len(head) - 1}"><thead><tr>']
    lines += [*(f'<th scope="col">{title}</th>' for title in head), "</tr></thead><tbody>"]
    for row in body:
        if len(row) == 1:
            lines.append(f'<tr><th scope="rowgroup" colspan="{len(head)}">{row[0]}</th></tr>')
            continue
        labels = (escape(text_of(title), quote=True) for title in head)
        cells = (f'<td data-label="{label}">{content}</td>' for label, content in zip(labels, row, strict=True))
        lines += ["<tr>", *cells, "</tr>"]
    return "".join([*lines, "</tbody></table>"])


def text_of(html: str) -> str:
    """Return the text of HTML without nested markup."""
    parts = html.replace(">", "<").split("<")
    return unescape("".join(parts[::2]))


def with_best(rows: Sequence[Row | None], field: str, best: Best) -> list[str]:
    """Return a field of each row as HTML, and mark the best if they differ."""
    texts = ["-" if row is None else cell(row, field) for row in rows]
    values = [row[field] for row in rows if row is not None and row[field] is not None]
    if best is None or len(set(texts)) < 2 or not values:
        return texts
    chosen = best(values)
    mark = '<b class="best" title="the best of the row">{}</b>'
    found = ((row or {}).get(field) == chosen for row in rows)
    return [mark.format(text) if is_best else text for text, is_best in zip(texts, found, strict=True)]


def headline(models: Models, stats: Sequence[Row]) -> str:
    """Return the sentence and the four figures at the head of the page."""
    first, *others = models
    model = models[first]
    sizes = [f"{len(each.vocab):,}" for each in models.values()]
    merges = "merges by rank" if model.ranked else f"{len(model.merges):,} merges"
    specials = len(model.special_tokens)
    n_specials = f"{specials:,} special token{'' if specials == 1 else 's'}"
    cards = [("Vocabulary", sizes, f"{merges}, {n_specials}")]
    if not stats:
        lengths = token_properties(model).lengths
        sentence = f"<b>{sizes[0]} tokens</b>, the longest of {int(lengths.max()):,} bytes."
        return _head(sentence, cards, others)
    found = totals(stats)
    total = found[0]
    share, rest = percent(total["vocab_share"]), f"{total['unused_tokens']:,} tokens do not occur"
    relative = [_relation(total["tokens"], row["tokens"], name) for name, row in zip(others, found[1:], strict=True)]
    sentence = f"{' and '.join(relative)} on this corpus."
    if not others:
        sentence = f"<b>{figure(total['bytes_per_token'])} bytes per token</b> on this corpus, with {share} of the vocabulary."
    each = f"{figure(total['characters_per_token'])} characters, {figure(total['words_per_token'])} words"
    cards.append(("Bytes per token", [figure(row["bytes_per_token"]) for row in found], each))
    cards.append(("Tokens of the text", [_brief(row["tokens"]) for row in found], f"of {_brief(total['bytes'])}B of text"))
    cards.append(("Vocabulary used", [percent(row["vocab_share"]) for row in found], rest))
    return _head(sentence, cards, others)


def _relation(tokens: int, others: int, name: str) -> str:
    """Return how many tokens there are, compared with another tokenizer."""
    difference = 1 - tokens / max(others, 1)
    if abs(difference) < 0.0005:
        return f"<b>as many tokens</b> as {shown(name)}"
    return f"<b>{percent(abs(difference))} {'fewer' if difference > 0 else 'more'} tokens</b> than {shown(name)}"


def _brief(number: int) -> str:
    """Return a number with three digits and a unit if it is large."""
    for unit, name in ((10**9, "G"), (10**6, "M")):
        if number >= unit:
            return f"{number / unit:.2f} {name}"
    return f"{number:,}"


def _head(sentence: str, cards: Iterable[tuple[str, Sequence[str], str]], others: Sequence[str]) -> str:
    parts = [f'<p class="lead">{sentence}</p><div class="cards">']
    heads = tokenizer_heads(["", *others])[1:]
    for title, (value, *values), note in cards:
        lines = "".join(f"<li>{head}<span>{other}</span></li>" for head, other in zip(heads, values, strict=True))
        parts.append(f'<div class="card"><h3>{title}</h3><strong>{value}</strong><p class="quiet">{note}</p>')
        parts.append(f"<ul>{lines}</ul></div>")
    return "".join([*parts, "</div>"])


def summary(models: Models, stats: Sequence[Row]) -> str:
    """Return the table of all figures, with the best of each row marked."""
    heads = tokenizer_heads(models)
    rows: list[Sequence[str]] = [("", *heads)]
    if stats:
        rows += [("On the text",)]
        rows += [(title, *with_best(totals(stats), field, best)) for title, field, best in ON_THE_TEXT]
    each = list(models.values())
    rows += [("Vocabulary",), ("tokens", *(f"{len(model.vocab):,}" for model in each))]
    rows.append(("special tokens", *(f"{len(model.special_tokens):,}" for model in each)))
    rows.append(("merges", *("by rank" if model.ranked else f"{len(model.merges):,}" for model in each)))
    if len(each) > 1:
        found = [compare_vocabularies(each[0], model, n_rows=0) for model in each]
        rows.append((f"shared with {shown(next(iter(models)))}", *(f"{entry['shared']:,}" for entry in found)))
        rows.append(("alone, without those shared", *(f"{len(entry['only_second']):,}" for entry in found)))
        rows.append(("rank correlation", *(cell(entry, "rank_correlation") for entry in found)))
    return html_table(rows, kind="values")


def text_tables(names: Iterable[str], stats: Sequence[Row]) -> str:
    """Return the tables of bytes per token of each text and of each script."""
    parts = []
    heads = tokenizer_heads(names)
    for title, key, fields in (("text", "name", ("bytes", "words")), ("script", "script", ("bytes", "characters", "words"))):
        by_name = [{row[key]: row for row in of[f"{title if key == 'script' else 'group'}s"]} for of in stats]
        rows: list[Sequence[str]] = [(title, *fields, *heads)]
        for name, row in by_name[0].items():
            each = with_best([of.get(name) for of in by_name], "bytes_per_token", max)
            rows.append((f'<span class="path">{shown(name)}</span>', *(cell(row, field) for field in fields), *each))
        head = f"Bytes per token of {len(rows) - 1:,} {title}{'s' if len(rows) > 2 else ''}"
        parts.append(f"<details><summary>{head}</summary>{html_table(rows)}</details>" if by_name[0] else "")
    return "".join(parts)


def settings_tables(head: str, model: Model) -> str:
    """Return the settings of a tokenizer, after its name as HTML."""
    patterns = [model.pattern] if isinstance(model.pattern, str) else list(model.pattern)
    names = {pattern: f"{name}: " for name, pattern in PRESETS.items()}
    specials = [f"{_code(text)} = {number}" for text, number in model.special_tokens.items()]
    rows = [
        ("setting", "value"),
        ("SHA-256", _code(model.sha256)),
        ("split pattern", "<br>".join(f"{names.get(pattern, '')}{_code(pattern)}" for pattern in patterns)),
        ("Unicode", shown(model.unicode or "that of the installed regex package")),
        ("tie rule", shown(model.tie_break or "not known")),
        ("special tokens", _listed(specials) or "none"),
    ]
    if model.pipeline is not None:
        rows += [("normalizer", _code(model.pipeline.normalizer)), ("pre-tokenizer", _code(model.pipeline.pre_tokenizer))]
    rows += [(_words(key), in_words(value)) for key, value in model.training.items()]
    return f"<h3>{head}</h3>{html_table(rows, kind='stack text')}"


def _code(text: str) -> str:
    return f"<code>{shown(text)}</code>"


def _words(name: object) -> str:
    return shown(str(name).replace("_", " ").replace("pretoken", "pre-token"))


def _listed(parts: Iterable[str]) -> str:
    parts = list(parts)
    rest = f" and {len(parts) - MOST_SHOWN:,} more" if len(parts) > MOST_SHOWN else ""
    return ", ".join(parts[:MOST_SHOWN]) + rest


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
        return _listed(map(in_words, value)) or "none"
    if isinstance(value, dict) and value.keys() == {"path", "bytes"}:
        return f"{shown(str(value['path']))} ({in_words(value['bytes'])} bytes)"
    if isinstance(value, dict):
        return _listed(f"{_words(key)} {in_words(of_key)}" for key, of_key in value.items()) or "none"
    text = str(value)
    return shown(text if len(text) <= 2000 else f"{text[:2000]} ...")
