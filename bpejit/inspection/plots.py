"""Plots of a tokenizer with matplotlib. Each function draws into axes, or into new ones for None, and returns them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from bpejit.arrays import Array
from bpejit.corpus.contents import Contents
from bpejit.corpus.input_paths import Inputs
from bpejit.corpus.sources import find_sources
from bpejit.encoding.codec import Codec
from bpejit.errors import UnsupportedError
from bpejit.extras import import_extra
from bpejit.inspection.token_counts import TokenCounts, count_inputs
from bpejit.inspection.vocabulary_measures import LONGEST, compression_points, frequency_points, length_points
from bpejit.jit.listening import in_notebook
from bpejit.model import Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOR = "#2f81d6"
"""Readable on light and dark backgrounds."""


def plot_lengths(model: Model, ax: Any) -> Axes:
    """Plot how many tokens have each number of bytes."""
    lengths, numbers = length_points(model)
    last = f" ({LONGEST}: {LONGEST} or more)" if lengths.size == LONGEST else ""
    return _drawn(ax, lengths, numbers, x=f"bytes of a token{last}", y="tokens", marker=".")


def plot_frequencies(codec: Codec, inputs: Inputs, ax: Any) -> Axes:
    """Plot the number of occurrences of tokens against their rank by it, both on logarithmic scales."""
    points = frequency_points(_counted(codec, inputs).counts)
    axes = _drawn(ax, *points, x="rank by frequency", y="occurrences")
    axes.set(xscale="log", yscale="log")
    return axes


def plot_compression(codec: Codec, inputs: Inputs, ax: Any) -> Axes:
    """Plot bytes per token against the size of the vocabulary, for all smaller vocabularies of the same merges."""
    total = _counted(codec, inputs)
    points = compression_points(codec.model, total.dense(codec.model.vocab_size), total.measures.bytes)
    axes = _drawn(ax, *points, x="tokens of the vocabulary", y="bytes per token")
    axes.set_xscale("log", base=4)
    axes.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
    axes.xaxis.set_minor_formatter(lambda _size, _: "")
    return axes


def _counted(codec: Codec, inputs: Inputs) -> TokenCounts:
    _figure_module()  # if it is missing, before the work
    return count_inputs(codec, find_sources(inputs, Contents())).total


def _figure_module() -> Any:
    return import_extra("matplotlib.figure", "a plot", extra="plot", error=UnsupportedError)


def _drawn(ax: Any, horizontal: Array, vertical: Array, *, x: str, y: str, **style: Any) -> Axes:
    """Draw points into axes, or into new ones: of pyplot, where that is in use, since a notebook shows them after the cell."""
    if ax is None:
        settings: Any = {"figsize": (5.2, 3.2), "layout": "constrained"}
        new_figure = _figure_module().Figure
        if in_notebook() or "matplotlib.pyplot" in sys.modules:
            new_figure = import_extra("matplotlib.pyplot", "a plot", extra="plot", error=UnsupportedError).figure
        ax = new_figure(**settings).subplots()
    ax.plot(horizontal, vertical, color=_COLOR, **style)
    ax.set(xlabel=x, ylabel=y)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    return ax  # type: ignore[no-any-return]
