"""Plots of tokenizers with matplotlib. Each function draws into axes, by default new ones, and returns them.

Tokenizers are given by name; the names are in the legend if there are several.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

from bpejit.arrays import Array
from bpejit.errors import UnsupportedError
from bpejit.extras import import_extra
from bpejit.inspection.visible_text import plain_text
from bpejit.inspection.vocabulary_measures import LONGEST, compression_points, frequency_points, length_points
from bpejit.jit.listening import in_notebook
from bpejit.model import Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#2f81d6", "#d9622b", "#2e9e5b", "#a259c4", "#b8901f", "#d1467e")
"""Colors of tokenizers, readable on light and dark backgrounds."""


def new_axes(ax: Any = None, *, shown: bool = False) -> Axes:
    """Return axes: those given, or new ones of a figure that no window shows.

    If they are to be `shown`, new axes belong to a figure of pyplot, where that is in use: a notebook shows it after the cell.

    Raises
    ------
    UnsupportedError
        If matplotlib is not installed.
    """
    if ax is not None:
        return ax  # type: ignore[no-any-return]
    figure = import_extra("matplotlib.figure", "a plot", extra="plot", error=UnsupportedError)
    settings: Any = {"figsize": (5.2, 3.2), "layout": "constrained"}
    if shown and (in_notebook() or "matplotlib.pyplot" in sys.modules):
        from matplotlib import pyplot

        return pyplot.subplots(**settings)[1]  # type: ignore[no-any-return]
    return figure.Figure(**settings).subplots()  # type: ignore[no-any-return]


def plot_lengths(models: Mapping[str, Model], ax: Any = None) -> Axes:
    """Plot how many tokens have each number of bytes."""
    points = {name: length_points(model) for name, model in models.items()}
    has_last = any(lengths.size == LONGEST for lengths, _ in points.values())
    last = f" ({LONGEST}: {LONGEST} or more)" if has_last else ""
    return _drawn(new_axes(ax), points, f"bytes of a token{last}", "tokens", marker=".")


def plot_frequencies(counts: Mapping[str, Array], ax: Any = None) -> Axes:
    """Plot the number of occurrences of tokens against their rank by it, both on logarithmic scales."""
    ax = new_axes(ax)
    points = {name: frequency_points(values) for name, values in counts.items()}
    if any(ranks.size for ranks, _ in points.values()):
        ax.set(xscale="log", yscale="log")
    return _drawn(ax, points, "rank by frequency", "occurrences")


def plot_compression(models: Mapping[str, Model], counts: Mapping[str, Array], n_bytes: int, ax: Any = None) -> Axes:
    """Plot bytes per token against the size of the vocabulary, for all smaller vocabularies of the same merges.

    `counts` has the number of occurrences of each token in a text of `n_bytes` bytes.
    """
    points = {name: compression_points(model, counts[name], n_bytes) for name, model in models.items()}
    axes = _drawn(new_axes(ax), points, "tokens of the vocabulary", "bytes per token")
    axes.set_xscale("log", base=4)
    axes.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
    axes.xaxis.set_minor_formatter(lambda _size, _: "")
    return axes


def _label(name: str) -> str:
    """Return a name as a label: visible, short, and without a leading underscore, which matplotlib would hide."""
    text = plain_text(name.encode("utf-8", "surrogateescape"))
    text = text if len(text) <= 28 else "..." + text[-25:]
    return "\u200a" + text if text.startswith("_") else text


def _drawn(ax: Axes, points: Mapping[str, tuple[Array, Array]], x: str, y: str, **style: Any) -> Axes:
    """Draw the points of each tokenizer in its color, and return the axes with labels, and a legend if there are several."""
    colors = cycle(COLORS)
    for name, (horizontal, vertical) in points.items():
        color = next(colors)
        if horizontal.size:
            ax.plot(horizontal, vertical, color=color, label=_label(name), **style)
    texts = [ax.set_xlabel(x), ax.set_ylabel(y)]
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    if len(points) > 1:
        texts += ax.legend(frameon=False, fontsize="small").get_texts()
    for text in texts:
        text.set_parse_math(False)
    return ax
