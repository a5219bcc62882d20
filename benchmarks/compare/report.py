"""Render results: the tables of benchmarks/README.md and of docs/speed.md between their markers, and the chart.

Both show the machine with the most cases; docs/speed.md has tables of the others as well.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from . import chart
from .corpora import ROOT
from .markdown import escaped, number, table
from .results import RESULTS, Record, case_key, read
from .targets import NO_TARGETS, targets_block
from .tools import TOOLS
from .works import WORKS, Work, get_work

PAGE = ROOT / "benchmarks" / "README.md"
SUMMARY = ROOT / "docs" / "speed.md"
NO_RESULTS = "No results yet: `make bench` measures on your machine."

SUMMARY_SECTIONS = {"Training": "Training", "Encoding in memory": "Encoding in memory, one thread"}
"""Sections that are a table of their own in docs/speed.md, and the titles of the tables; the others share one."""


class Measured:
    """The results of one machine."""

    def __init__(self, records: list[Record], file: str = "") -> None:
        self.machine, *self.results = records
        self.file = file
        self.last = max(self.results, key=lambda result: result["date"])

    def of(self, work: str) -> list[Record]:
        """Return the results of a work."""
        return [result for result in self.results if result["work"] == work]


def sections() -> dict[str, list[Work]]:
    """Return the works of each section, in order."""
    found: dict[str, list[Work]] = {}
    for name in WORKS:
        work = get_work(name)
        found.setdefault(work.section, []).append(work)
    return found


# ---- cells


def cell(work: Work, results: list[Record]) -> str:
    """Format the figures of a tool in a row; several cases in one row give a range."""
    measured = [result["metrics"] for result in results if result["metrics"]]
    if not measured:
        # `JobError` of a process that was stopped after its time limit
        limits = [limit[1] for result in results if (limit := re.match(r"stopped after (\d+ s)$", result.get("status", "")))]
        return f"> {limits[0]}" if limits else "-"
    figures = []
    for metric in work.metrics:
        medians = [metrics[metric.name]["median"] for metrics in measured if metric.name in metrics]
        if medians:
            low, high = number(min(medians)), number(max(medians))
            figures.append(low if low == high else f"{low} to {high}")
    text = " / ".join(figures)
    peaks = [metrics["peak_mb"]["median"] for metrics in measured if "peak_mb" in metrics]
    return f"{text}, {number(max(peaks))} MB" if work.memory and work.shows_memory and peaks else text


def section_table(measured: Measured, works: list[Work], *, summary: bool = False) -> str:
    """Return the table of the works of a section, a column for each tool that has figures."""
    rows: dict[tuple[str, str], dict[str, list[Record]]] = {}
    by_name = {work.name: work for work in works}
    for work in works:
        for result in measured.of(work.name):
            comparable = not str(result.get("equal", "")).startswith("not comparable")
            if summary and not (comparable and work.in_summary(result["case"])):
                continue
            text = (work.summary_label if summary else work.page_label)(result["case"])
            rows.setdefault((work.name, text), {}).setdefault(result["tool"], []).append(result)
    shown = {tool for row in rows.values() for tool, results in row.items() if any(result["metrics"] for result in results)}
    tools = [name for name in TOOLS if name in shown]
    if not tools:
        return ""
    units = {unit(work) for work in works if any(name == work.name for name, _ in rows)}
    heading = units.pop() if len(units) == 1 else ""
    cells = [[text, *(cell(by_name[name], row.get(tool, [])) for tool in tools)] for (name, text), row in rows.items()]
    return table([heading, *tools], cells)


def unit(work: Work) -> str:
    """Return the units of a work's figures."""
    memory = ", peak memory" if work.memory and work.shows_memory else ""
    return " / ".join(metric.heading for metric in work.metrics) + memory


# ---- blocks


def machines_block(found: list[Measured]) -> str:
    """Return a line for each machine."""
    lines = []
    for measured in found:
        last, machine = measured.last, measured.machine
        commits = sorted({result["commit"] + ("+" if result["dirty"] else "") for result in measured.results})
        path = f"results/{measured.file}"
        lines.append(
            f"- [{machine['name']}]({path}): {machine['instructions']}, {machine['system']}, "
            f"measured until {last['date'][:10]}, commit {', '.join(commits)}."
        )
    versions: dict[str, str] = {}
    for measured in reversed(found):
        for result in measured.results:
            versions[result["tool"]] = result["version"]
    shown = {**{name: versions[name] for name in TOOLS if name in versions}, **found[0].last["libraries"]}
    lines.append(f"\nVersions: {', '.join(f'{name} {version}' for name, version in shown.items())}.")
    return "\n".join(lines)


def findings_block(found: list[Measured]) -> str:
    """Return the findings of each machine."""
    more = [f"On {one.machine['name']} ([tables](../docs/speed.md)):\n\n{findings_of(one)}" for one in found[1:]]
    return "\n\n".join([findings_of(found[0]), *more])


def findings_of(measured: Measured) -> str:
    """Return a line for each section: how many times faster bpejit is than each tool, over all cases."""
    lines = []
    for title, works in sections().items():
        ratios: dict[str, list[float]] = {}
        for work in works:
            for tool, values in ratios_of(work, measured.of(work.name)).items():
                ratios.setdefault(tool, []).extend(values)
        figures = [f"{tool} {range_of(ratios[tool])}" for tool in TOOLS if tool in ratios]
        if figures:
            lines.append(f"- {title}: {'; '.join(figures)}.")
    return "\n".join(lines)


def ratios_of(work: Work, results: list[Record]) -> dict[str, list[float]]:
    """Return how many times better bpejit is than each tool in each case, by the medians of each metric."""
    ours = {str(result["case"]): result["metrics"] for result in results if result["tool"] == "bpejit"}
    found: dict[str, list[float]] = {}
    for result in results:
        own = ours.get(str(result["case"]), {})
        for metric in work.metrics:
            if result["tool"] != "bpejit" and metric.name in own and metric.name in result["metrics"]:
                ratio = own[metric.name]["median"] / result["metrics"][metric.name]["median"]
                found.setdefault(result["tool"], []).append(ratio if metric.more_is_better else 1 / ratio)
    return found


def range_of(values: list[float]) -> str:
    """Format the range of some ratios."""
    low, high = number(min(values)), number(max(values))
    return low if low == high else f"{low} to {high}"


def corpora_block(found: list[Measured]) -> str:
    """Return a line that names the texts."""
    corpora: dict[str, Any] = {}
    for result in (one for measured in found for one in measured.results):
        corpus = result["case"].get("corpus")
        if isinstance(corpus, dict) and "sha256" in corpus:  # not a part of a text that another row names
            corpora.setdefault(corpus["sha256"], corpus)
    texts = [f"{one['name']} ({one['bytes']:,} bytes, {one['made']}, SHA-256 {one['sha256'][:8]})" for one in corpora.values()]
    return "Texts: " + "; ".join(texts) + "."


def without_figures(measured: Measured, works: list[Work]) -> str:
    """Return why tools have no figures in some cases, one sentence for a section."""
    reasons: dict[str, list[str]] = {}
    for work in works:
        for result in measured.of(work.name):
            if "status" in result:
                found = reasons.setdefault(result["tool"], [])
                if result["status"] not in found:
                    found.append(result["status"])
    shown = [f"{tool} ({'; '.join(map(escaped, texts[:3]))})" for tool, texts in reasons.items()]
    return f"\n\nCells without figures: {', '.join(shown)}." if shown else ""


def tables_block(measured: Measured) -> str:
    """Return title, description and table of each section."""
    parts = []
    for title, works in sections().items():
        if text := section_table(measured, works):
            words = " ".join(work.about for work in works if measured.of(work.name)).split()
            about = " ".join(words).replace(". ", ".\n")
            parts.append(f"## {title}\n\n{about}\n\n{text}{without_figures(measured, works)}")
    return "\n\n".join(parts)


def other_machine(measured: Measured) -> list[str]:
    """Return title, description and tables of a further machine, for docs/speed.md."""
    tables = [section_table(measured, works) for works in sections().values()]
    return [f"## On {measured.machine['name']}", described(measured), *filter(None, tables)]


def described(measured: Measured) -> str:
    """Return a sentence about a machine and its results."""
    last, machine = measured.last, measured.machine
    commit = last["commit"] + ("+" if last["dirty"] else "")
    return f"{machine['name']}, {machine['instructions']}; {last['date'][:10]}, commit {commit}; medians of several runs."


def summary_block(found: list[Measured]) -> str:
    """Return the block of docs/speed.md."""
    measured, *others = found
    lines = [described(measured), "Merges and ids are compared before they are timed."]
    if any(result["tool"] == "bpejit-avx2" for result in measured.results):
        lines.append("`bpejit-avx2` is bpejit on a processor without AVX-512 VBMI, measured with `BPEJIT_CPU=x86-64-v3`.")
    lines.append("[All figures](../benchmarks/README.md), and how they are measured.")
    parts = ["\n".join(lines)]
    rest: list[Work] = []
    for title, works in sections().items():
        if title in SUMMARY_SECTIONS:
            if text := section_table(measured, works, summary=True):
                parts.append(f"## {SUMMARY_SECTIONS[title]}\n\n{text}")
        else:
            rest += works
    if text := section_table(measured, rest, summary=True):
        parts.append(f"## Everything else\n\n{text}")
    return "\n\n".join(parts + [part for one in others for part in other_machine(one)])


# ---- files


def replace_block(text: str, name: str, content: str) -> str:
    """Replace what is between the markers of a name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    pattern = re.compile(re.escape(begin) + r"\n.*?" + re.escape(end), re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"expected the markers {begin} and {end} once, each on a line of its own")
    return pattern.sub(lambda _: f"{begin}\n{content}\n{end}", text)


def machines(folder: Path) -> list[Measured]:
    """Return the results of each machine: the one with the most cases first, and of several such the latest."""
    found = [Measured(records, path.name) for path in sorted(folder.glob("*.jsonl")) if len(records := read(path)) > 1]
    return sorted(found, key=lambda one: (len(set(map(case_key, one.results))), one.last["date"]), reverse=True)


def render_page(text: str, found: list[Measured], targets: str = NO_TARGETS) -> str:
    """Return benchmarks/README.md with its blocks filled."""
    blocks = dict.fromkeys(("machines", "findings", "tables", "texts"), NO_RESULTS)
    if found:
        blocks = {
            "machines": machines_block(found),
            "findings": findings_block(found),
            "tables": tables_block(found[0]),
            "texts": corpora_block(found),
        }
    blocks["targets"] = targets
    for name, content in blocks.items():
        text = replace_block(text, name, content)
    return text


def render_summary(text: str, found: list[Measured]) -> str:
    """Return docs/speed.md with its block filled."""
    return replace_block(text, "benchmarks", summary_block(found) if found else NO_RESULTS)


def render_files(folder: Path = RESULTS) -> None:
    """Write docs/speed.md, benchmarks/README.md and the chart from a folder of results."""
    found = machines(folder)
    PAGE.write_text(render_page(PAGE.read_text(), found, targets_block(folder / "targets")))
    SUMMARY.write_text(render_summary(SUMMARY.read_text(), found))
    if found:
        chart.PICTURE.write_text(chart.draw(found[0].results), encoding="utf-8")
