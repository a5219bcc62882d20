"""Plots of tokenizers with matplotlib, and the data of the charts of `bpejit report`, which the script of the page draws.

The functions `plot_...` draw into axes, by default new ones, and return them. A chart is a dict with an `id`, a `title`, and a
`series` for each tokenizer. If its kind is `lines`, a series has the two coordinates of its points, and `x` and `y` are the
titles and formats of the axes. If it is `bars`, a series has a value for each of the names in `rows`, and `format` is theirs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from bpejit.arrays import Array
from bpejit.errors import UnsupportedError
from bpejit.inspection.names import short_names
from bpejit.inspection.tables import Row
from bpejit.inspection.visible_text import plain, plain_text, spaces_or
from bpejit.inspection.vocabulary_measures import compression_curve, merge_parts, token_properties
from bpejit.jit.listening import in_notebook
from bpejit.model import Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#2f81d6", "#d9622b", "#2e9e5b", "#a259c4", "#b8901f", "#d1467e")
"""Colors of tokenizers, readable on light and dark backgrounds."""

MOST_POINTS = 600
"""Points of a curve: more would make the file larger, and nothing visible."""

SMALLEST_SHARE = 0.001
"""Scripts with a smaller share of the text are in the table, and not in the chart."""

MOST_GROUPS = 40
"""Number of files or labels that are drawn."""

LONGEST = 40
"""Tokens of as many bytes or more are counted together."""


def new_axes(ax: Any = None, *, shown: bool = False) -> Axes:
    """Return axes: those given, or new ones of a figure that no window shows.

    Parameters
    ----------
    ax : matplotlib Axes, optional
    shown : bool
        Whether new axes belong to a figure of pyplot, where that is in use: a notebook shows it at the end of the cell.

    Raises
    ------
    UnsupportedError
        If matplotlib is not installed.
    """
    if ax is not None:
        return ax  # type: ignore[no-any-return]
    try:
        from matplotlib.figure import Figure
    except ImportError as cause:
        raise UnsupportedError(
            "plots need matplotlib, which is not installed; expected the package: install it with `pip install 'bpejit[plot]'`"
        ) from cause
    settings: Any = {"figsize": (5.2, 3.2), "layout": "constrained"}
    if shown and (in_notebook() or "matplotlib.pyplot" in sys.modules):
        from matplotlib import pyplot

        found: Axes = pyplot.subplots(**settings)[1]
        return found
    return Figure(**settings).subplots()


def plot_lengths(models: Mapping[str, Model], ax: Any = None) -> Axes:
    """Plot how many tokens have each number of bytes.

    Parameters
    ----------
    models : mapping of str to Model
        By name; the names are in the legend if there are several.
    ax : matplotlib Axes, optional
    """
    ax = new_axes(ax)
    longest = 0
    for name, model, color in _colored(models):
        lengths = token_properties(model).lengths
        numbers = np.bincount(np.minimum(lengths[lengths > 0], 40))
        longest = max(longest, numbers.size)
        ax.plot(np.arange(1, numbers.size), numbers[1:], color=color, marker=".", label=_label(name))
    ax.set_xlabel("bytes of a token" + (" (40: 40 or more)" if longest > 40 else ""))
    ax.set_ylabel("tokens")
    return _finished(ax, len(models))


def plot_frequencies(counts: Mapping[str, Array], ax: Any = None) -> Axes:
    """Plot the frequency of tokens against their rank by frequency, both on logarithmic scales.

    Parameters
    ----------
    counts : mapping of str to integers [n]
        Number of occurrences of tokens, by name of the tokenizer.
    ax : matplotlib Axes, optional
    """
    ax = new_axes(ax)
    for name, values, color in _colored(counts):
        ordered = np.sort(values[values > 0])[::-1]
        if ordered.size:
            at = evenly_spaced(ordered.size)
            ax.loglog(at + 1, ordered[at], color=color, label=_label(name))
    ax.set_xlabel("rank by frequency")
    ax.set_ylabel("occurrences")
    return _finished(ax, len(counts))


def plot_compression(models: Mapping[str, Model], counts: Mapping[str, Array], n_bytes: int, ax: Any = None) -> Axes:
    """Plot bytes per token against the size of the vocabulary, for all smaller vocabularies of the same merges.

    Parameters
    ----------
    models : mapping of str to Model
    counts : mapping of str to int64 [vocab_size]
        Number of occurrences of each token in a text, for the same names.
    n_bytes : int
        Bytes of the text.
    ax : matplotlib Axes, optional
    """
    ax = new_axes(ax)
    for name, model, color in _colored(models):
        sizes, tokens = compression_curve(model, merge_parts(model), counts[name])
        at = evenly_spaced(sizes.size)
        ax.plot(sizes[at], n_bytes / np.maximum(tokens[at], 1), color=color, label=_label(name))
    ax.set_xscale("log", base=4)
    ax.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
    ax.xaxis.set_minor_formatter(lambda _size, _: "")
    ax.set_xlabel("tokens of the vocabulary")
    ax.set_ylabel("bytes per token")
    return _finished(ax, len(models))


def _colored(series: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield the name, the values and the color of each series."""
    colors = cycle(COLORS)
    for name, values in series.items():
        yield name, values, next(colors)


def _label(name: str) -> str:
    """Return a name as a label: visible, short, and without a leading underscore, which matplotlib would hide."""
    text = plain_text(name.encode("utf-8", "surrogateescape"))
    text = text if len(text) <= 28 else "..." + text[-25:]
    return "\u200a" + text if text.startswith("_") else text


def evenly_spaced(size: int) -> Array:
    """Return at most `MOST_POINTS` indices that are evenly spaced on a logarithmic scale, with the first and the last."""
    return np.unique(np.concatenate([[0], np.geomspace(1, size, MOST_POINTS).astype(np.int64) - 1]))


def _finished(ax: Axes, n_series: int) -> Axes:
    for text in (ax.xaxis.label, ax.yaxis.label):
        text.set_parse_math(False)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    if n_series > 1:
        legend = ax.legend(frameon=False, fontsize="small")
        for text in legend.get_texts():
            text.set_parse_math(False)
    return ax


_Axis = tuple[str, str]


def charts(models: Mapping[str, Model], counts: Mapping[str, Array], stats: Sequence[Row]) -> list[Row]:
    """Return the data of all charts; without `stats`, that of the vocabularies.

    Parameters
    ----------
    models : mapping of str to Model
    counts : mapping of str to int64 [vocab_size]
        Number of occurrences of each token.
    stats : sequence of dict
        What `corpus_stats` returns for each model.
    """
    if not stats:
        return [_lengths(models)]
    total = stats[0]["total"]
    scripts = [
        row["script"] for row in stats[0]["scripts"] if row["tokens"] and row["bytes"] >= SMALLEST_SHARE * total["bytes"]
    ]
    groups = [row["name"] for row in stats[0]["groups"] if row["tokens"]][:MOST_GROUPS]
    compared = [
        _ratios("scripts", "script", scripts, [name.replace("_", " ") for name in scripts], stats),
        _ratios("groups", "name", groups, short_names(groups), stats),
    ]
    return [
        _compression(models, counts, total["bytes"]),
        *(chart for chart in compared if len(chart["rows"]) > 1),
        _frequent(stats[0]["most_frequent"], total["tokens"]),
        _coverage(stats),
        _used(stats),
        _lengths(models),
        _frequencies(counts),
    ]


def _lines(id_: str, title: str, x: _Axis, y: _Axis, series: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Row:
    return {"id": id_, "title": title, "kind": "lines", "x": x, "y": y, "series": series}


def _bars(id_: str, title: str, rows: Sequence[str], form: str, series: Sequence[Sequence[float | None]]) -> Row:
    return {"id": id_, "title": title, "kind": "bars", "rows": rows, "format": form, "series": series}


def _rounded(value: float) -> float:
    """Return a number with four digits, since more would make the page larger, and nothing visible."""
    return float(f"{value:.4g}")


def _compression(models: Mapping[str, Model], counts: Mapping[str, Array], n_bytes: int) -> Row:
    series = []
    for name, model in models.items():
        sizes, tokens = compression_curve(model, merge_parts(model), counts[name])
        at = evenly_spaced(sizes.size)
        ratios = n_bytes / np.maximum(tokens[at], 1)
        series.append((sizes[at].tolist(), [_rounded(ratio) for ratio in ratios.tolist()]))
    title = "Compression by size of the vocabulary"
    return _lines("compression", title, ("tokens of the vocabulary", "log"), ("bytes per token", "ratio"), series)


def _ratios(id_: str, key: str, names: Sequence[str], shown: Sequence[str], stats: Sequence[Row]) -> Row:
    """Return a chart of the bytes per token of each script or text."""
    series = []
    for of in stats:
        ratios = {row[key]: row["bytes_per_token"] for row in of[id_]}
        found = [ratios.get(name) for name in names]
        series.append([None if ratio is None else _rounded(ratio) for ratio in found])
    what = "script" if id_ == "scripts" else "text"
    return _bars(id_, f"Bytes per token of each {what}", [plain(name) for name in shown], "ratio", series)


def _frequent(tokens: Sequence[Row], n_tokens: int) -> Row:
    names = [spaces_or(row["token"], lambda token: plain_text(token).replace(" ", "\u2423")) for row in tokens]
    shares = [_rounded(row["count"] / n_tokens) for row in tokens]
    return _bars("frequent", "The most frequent tokens, by share of the text", names, "share", [shares])


def _coverage(stats: Sequence[Row]) -> Row:
    series = []
    for of in stats:
        rows = of["coverage"]
        series.append(([row["tokens"] for row in rows], [_rounded(row["share"]) for row in rows]))
    x = ("most frequent tokens", "log")
    return _lines("coverage", "Coverage by the most frequent tokens", x, ("share of the text", "share"), series)


def _used(stats: Sequence[Row]) -> Row:
    series = []
    for of in stats:
        shares = [_rounded(row["used"] / row["tokens"]) for row in of["ranks"]]
        series.append((list(range(1, len(shares) + 1)), shares))
    x = ("tenths of the vocabulary, by id", "count")
    return _lines("ranks", "Use of each tenth of the vocabulary", x, ("share of its tokens", "share"), series)


def _lengths(models: Mapping[str, Model]) -> Row:
    series = []
    for model in models.values():
        lengths = token_properties(model).lengths
        numbers = np.bincount(np.minimum(lengths[lengths > 0], LONGEST))[1:].tolist()
        series.append((list(range(1, len(numbers) + 1)), numbers))
    longest = max(len(numbers) for _, numbers in series)
    x = f"bytes of a token{f' ({LONGEST}: and more)' if longest == LONGEST else ''}"
    return _lines("lengths", "Tokens by length", (x, "count"), ("tokens", "count"), series)


def _frequencies(counts: Mapping[str, Array]) -> Row:
    series = []
    for values in counts.values():
        ordered = np.sort(values[values > 0])[::-1]
        at = evenly_spaced(ordered.size)
        series.append(((at + 1).tolist(), ordered[at].tolist()))
    return _lines("frequencies", "Frequency by rank", ("rank by frequency", "log"), ("occurrences", "log"), series)
