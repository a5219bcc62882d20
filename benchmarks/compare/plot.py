"""The plot of growth: time and memory against the size of the text and of the vocabulary."""

from __future__ import annotations

import sys
from pathlib import Path

from .results import Record


def points(results: list[Record], against: str) -> list[tuple[float, Record]]:
    """Size and metrics; the text of the vocabulary series belongs to it with its own vocabulary as well."""
    texts = {result["case"]["corpus"]["sha256"] for result in results if result["case"]["against"] == "vocabulary"}
    found = {}
    for result in results:
        case = result["case"]
        if against == "corpus" and case["against"] == "corpus":
            found[case["corpus"]["bytes"] / 1e6] = result["metrics"]
        if against == "vocabulary" and case["corpus"]["sha256"] in texts:
            found[float(result["n_merges"] + 257)] = result["metrics"]
    return sorted(found.items())


def draw(results: list[Record], path: Path) -> None:
    """Draw four small plots into one SVG; without matplotlib, say so and leave the old one."""
    try:
        import matplotlib
    except ImportError:
        print("matplotlib is not installed: the plot was not drawn", file=sys.stderr)
        return
    matplotlib.use("svg")
    # Text as text and fixed names of elements: a small file that does not change from run to run.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bpejit", "font.size": 9})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(8, 5.2), layout="constrained")
    lines = [("train_seconds", "training", "o"), ("first_seconds", "encoding, first pass", "s")]
    lines.append(("later_seconds", "encoding, later passes", "^"))
    memory = [("train_peak_mb", "training", "o"), ("encode_peak_mb", "encoding", "s")]
    for column, (against, label) in enumerate((("corpus", "text, MB"), ("vocabulary", "vocabulary, tokens"))):
        found = points(results, against)
        for row, (metrics, unit) in enumerate(((lines, "seconds"), (memory, "peak memory, MB"))):
            axis = axes[row][column]
            for metric, name, marker in metrics:
                axis.plot([x for x, _ in found], [one[metric]["median"] for _, one in found], marker=marker, label=name)
            axis.set(xscale="log", xlabel=label, ylabel=unit)
            if row == 0:
                axis.set_yscale("log")
            else:
                axis.set_ylim(bottom=0)
            axis.grid(alpha=0.3)
            axis.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None})
    plt.close(figure)
