"""The figures of tokenizers for the page of `bpejit report`, whose script makes tables and charts of them; their settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from bpejit.arrays import Array
from bpejit.inspection.names import short_names
from bpejit.inspection.superword_measures import superwords_of
from bpejit.inspection.tables import Row
from bpejit.inspection.visible_text import plain, plain_text, shown, spaces_or
from bpejit.inspection.vocabulary_measures import (
    compare_vocabularies,
    compression_points,
    frequency_points,
    length_points,
    token_properties,
)
from bpejit.model import Model
from bpejit.splitting.presets import PRESETS

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
    curves: dict[str, list[tuple[Array, Array]]] = {"lengths": list(map(length_points, models.values()))}
    if stats:
        n_bytes = stats[0]["total"]["bytes"]
        curves["compression"] = [compression_points(model, counts[name], n_bytes) for name, model in models.items()]
        curves["frequencies"] = list(map(frequency_points, counts.values()))
    drawn = {}
    for name, points in curves.items():
        drawn[name] = [(x.tolist(), y.round(4).tolist()) for x, y in points]
    groups = stats[0]["groups"] if stats else []
    group_names = [group["name"] for group in groups]
    frequent = stats[0]["most_frequent"] if stats else []
    return {
        "names": [plain(name) for name in models],
        "vocabularies": [_vocabulary(model, first) for model in models.values()],
        "stats": [_shown_stats(of) for of in stats],
        "texts": [plain(name) for name in short_names(group_names)],
        "frequent": [(spaces_or(row["token"], plain_text), row["count"]) for row in frequent],
        "curves": drawn,
    }


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
