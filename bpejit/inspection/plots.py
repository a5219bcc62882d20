"""Plots of tokenizers with matplotlib. Each function draws into axes, by default new ones, and returns them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from bpejit.arrays import Array
from bpejit.errors import UnsupportedError
from bpejit.inspection.visible_text import plain_text
from bpejit.inspection.vocabulary_measures import compression_curve, merge_parts, token_properties
from bpejit.jit.listening import in_notebook
from bpejit.model import Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#2f81d6", "#d9622b", "#2e9e5b", "#a259c4", "#b8901f", "#d1467e")
"""Colors of tokenizers, readable on light and dark backgrounds."""

MOST_POINTS = 600
"""Points of a curve: more would make the file larger, and nothing visible."""


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
