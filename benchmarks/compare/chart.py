"""Draw three figures, each with those of other tools, as one picture: docs/pictures/speed.svg."""

from __future__ import annotations

from typing import NamedTuple
from xml.sax.saxutils import escape

from .corpora import ROOT
from .markdown import number
from .results import Record

PICTURE = ROOT / "docs" / "pictures" / "speed.svg"

WIDTH, BAR, GAP, TITLE, NAMES = 560, 18, 6, 46, 112
"""Widths and heights in pixels: the picture, a bar, between bars, the head of a figure, the names of tools."""

STYLE = """
  .paper { fill: #ffffff } text { font: 13px system-ui, "Segoe UI", "Noto Sans", Arial, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 14px } .note { fill: #59636e; font-size: 12px }
  .other { fill: #b6bec8 } .own { fill: #1a7f5a }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #151a21 } text { fill: #e6edf3 } .note { fill: #9aa4ae } .other { fill: #56606b } .own { fill: #3fb984 }
  }
"""


class Figure(NamedTuple):
    """What a part of the picture shows: one metric of one case."""

    title: str
    unit: str
    metric: str
    work: str
    corpus: str
    case: Record
    less_is_better: bool = False


GPT2: Record = {"vocabulary": "gpt2"}

FIGURES = (
    Figure("Train 32,000 tokens on 100 MB of text", "s", "seconds", "train", "mixed-100MB", {"vocab_size": 32_000}, True),
    Figure(
        "Encode the second half of 30 MB after the first, one thread",
        "MB/s",
        "second_mb_s",
        "halves",
        "english",
        {"vocabulary": "gpt2"},
    ),
    Figure(
        "Encode a file of 213 MB into a file of ids, two workers",
        "MB/s",
        "mb_s",
        "encode_file",
        "english",
        {"vocabulary": "gpt2", "workers": 2},
    ),
)


def found(figure: Figure, results: list[Record]) -> list[tuple[str, float]]:
    """Return the tools with a value for a figure, the best first."""
    values = []
    for result in results:
        case = result["case"]
        fits = result["work"] == figure.work and case.get("corpus", {}).get("name") == figure.corpus
        compared = result["tool"] != "bpejit-avx2" and not str(result.get("equal", "")).startswith("not comparable")
        if fits and compared and figure.metric in result["metrics"] and figure.case.items() <= case.items():
            values.append((result["tool"], result["metrics"][figure.metric]["median"]))
    return sorted(values, key=lambda value: value[1], reverse=not figure.less_is_better)


def draw(results: list[Record]) -> str:
    """Return the picture of the results of a machine."""
    parts: list[str] = []
    top = 12
    for figure in FIGURES:
        values = found(figure, results)
        order = "less is better" if figure.less_is_better else "more is better"
        parts.append(f'<text class="title" x="14" y="{top + 16}">{escape(figure.title)}</text>')
        parts.append(f'<text class="note" x="14" y="{top + 34}">{figure.unit}, {order}</text>')
        top += TITLE
        largest = max((value for _, value in values), default=1.0)
        for tool, value in values:
            length = max(2.0, (WIDTH - NAMES - 80) * value / largest)
            kind = "own" if tool == "bpejit" else "other"
            middle = top + BAR - 5
            parts.append(f'<text x="{NAMES - 8}" y="{middle}" text-anchor="end">{escape(tool)}</text>')
            parts.append(f'<rect class="{kind}" x="{NAMES}" y="{top}" width="{length:.0f}" height="{BAR}" rx="2"/>')
            parts.append(f'<text x="{NAMES + length + 6:.0f}" y="{middle}">{number(value)}</text>')
            top += BAR + GAP
        top += 10
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}">\n'
        f'<style>{STYLE}</style>\n<rect class="paper" width="{WIDTH}" height="{top}" rx="6"/>\n{body}\n</svg>\n'
    )
