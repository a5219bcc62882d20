"""Tables from the JSON lines: the block in the README, the blocks of the benchmarks' page, and the plot of growth.

The prose of benchmarks/README.md is written by hand; what stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->` is
written here and nowhere else. README.md takes the machine that was measured last.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from . import plot
from .corpora import ROOT
from .results import RESULTS, Record, read
from .tools import TOOLS

PAGE = ROOT / "benchmarks" / "README.md"
README = ROOT / "README.md"
PLOT = "scaling.svg"


class Measured:
    """The records of one machine."""

    def __init__(self, records: list[Record]) -> None:
        self.runs = {record["run"]: record for record in records if record["record"] == "run"}
        self.results = [record for record in records if record["record"] == "result"]
        self.last = self.runs[max(self.runs)]

    @property
    def name(self) -> str:
        machine = self.last["machine"]
        cache = f", {machine['cache size']} cache" if machine.get("cache size") else ""
        return f"{machine['cpu']}{cache}, {machine['cores']} cores, {machine['memory_gb']} GB"

    def of(self, work: str) -> list[Record]:
        return [result for result in self.results if result["work"] == work]

    def run_of(self, work: str) -> Record | None:
        found = [result["run"] for result in self.of(work)]
        return self.runs[max(found)] if found else None


# ---- numbers as text


def number(value: float) -> str:
    """Three digits that mean something, and no more after the point than needed."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def spread(metric: Record | None) -> str:
    if metric is None:
        return ""
    if metric["runs"] == 1:
        return number(metric["median"])
    return f"{number(metric['median'])} ({number(metric['min'])} to {number(metric['max'])})"


def middle(record: Record | None, metric: str, unit: str = "") -> str:
    if record is None or metric not in record["metrics"]:
        return "-"
    return number(record["metrics"][metric]["median"]) + unit


def ratio(record: Record, metric: str) -> str:
    found = record.get("ratio", {}).get(metric)
    return "" if found is None else number(found)


def table(head: list[str], rows: list[list[str]], *, left: int = 1) -> str:
    """A Markdown table; the first columns are left-aligned, the others right."""
    if not rows:
        return ""
    lines = [head, ["---" if place < left else "---:" for place in range(len(head))], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def cases_of(results: list[Record]) -> list[tuple[Record, dict[str, Record]]]:
    """The cases in the order in which they were measured, each with its results by tool."""
    found: dict[str, tuple[Record, dict[str, Record]]] = {}
    for result in results:
        found.setdefault(str(result["case"]), (result["case"], {}))[1][result["tool"]] = result
    return list(found.values())


def tools_of(results: list[Record]) -> list[str]:
    found = {result["tool"] for result in results if result["metrics"]}
    return [name for name in TOOLS if name in found]


def size(corpus: Record) -> str:
    return f"{corpus['name']}, {number(corpus['bytes'] / 1e6)} MB"


# ---- the blocks of the page


def machine_block(measured: Measured) -> str:
    last = measured.last
    machine = last["machine"]
    wide = "with AVX-512" if machine.get("avx512") else "without AVX-512"
    versions = ", ".join(f"{name} {version}" for name, version in last["versions"].items())
    lines = [
        f"{measured.name}; {wide}; {machine['system']}, Python {machine['python']}.",
        f"Versions: {versions}.",
    ]
    if last.get("missing"):
        lines.append(f"Not installed, and so absent: {', '.join(last['missing'])}.")
    for run in sorted(measured.runs.values(), key=lambda one: one["run"]):
        works = ", ".join(dict.fromkeys(result["work"] for result in measured.results if result["run"] == run["run"]))
        lines.append(f"- {run['run']}, commit {run['commit']}, `{run['command']}`: {works}")
    return "\n".join(lines[: -len(measured.runs)]) + "\n\n" + "\n".join(lines[-len(measured.runs) :])


def corpora_block(measured: Measured) -> str:
    corpora = {}
    for result in measured.results:
        corpus = result["case"].get("corpus")
        if corpus:
            corpora.setdefault((corpus["name"], corpus["sha256"]), corpus)
    rows = [
        [corpus["name"], f"{corpus['bytes']:,}", corpus["made"], f"`{corpus['sha256'][:16]}`"] for corpus in corpora.values()
    ]
    return table(["text", "bytes", "where from", "SHA-256 begins"], rows, left=4)


def who(measured: Measured, work: str) -> str:
    """Who takes part, from what to what, and who cannot."""
    forms = {result["tool"]: result for result in measured.of(work) if result["metrics"] and result.get("form")}
    lines = [f"- {name} {result['version']}: {result['form']}." for name, result in forms.items()]
    run = measured.run_of(work)
    kind = "train" if work == "train" else "encode"
    absent = dict(run["cannot"][kind]) if run else {}
    for result in measured.of(work):
        if result.get("status") and result["tool"] not in forms:
            absent.setdefault(result["tool"], result["status"])
    lines += [f"- {name} takes no part: {reason}." for name, reason in absent.items()]
    return "\n".join(lines)


def equality(result: Record) -> str:
    if result["tool"] == "bpejit":
        return "" if result.get("equal") is True else str(result.get("equal"))
    if result.get("equal") is True:
        return f"equal ({result['tie_rule']})" if result.get("tie_rule") else "equal"
    return str(result.get("equal", ""))


def train_block(measured: Measured) -> str:
    rows = []
    for case, by_tool in cases_of(measured.of("train")):
        for name, result in by_tool.items():
            metrics = result["metrics"]
            start = [f"{size(case['corpus'])}, {case['vocab_size']:,}", name]
            if not metrics:
                rows.append([*start, "", "", "", "", result["status"]])
                continue
            times = [spread(metrics["seconds"]), ratio(result, "seconds")]
            held = [middle(result, "peak_mb"), ratio(result, "peak_mb")]
            rows.append([*start, *times, *held, equality(result)])
    head = ["text, vocabulary", "tool", "seconds", "times bpejit's", "peak MB", "times bpejit's", "merges"]
    preparing = [result for result in measured.of("train") if result["tool"] == "bpejit" and result["metrics"]]
    note = ""
    if preparing:
        seconds = preparing[0]["metrics"]["prepare_seconds"]
        note = f"\n\nLoading bpejit's compiled kernels takes {spread(seconds)} s in each process, not counted above."
    return f"{who(measured, 'train')}\n\n{table(head, rows, left=2)}{note}"


def encode_block(measured: Measured) -> str:
    rows = []
    for case, by_tool in cases_of(measured.of("encode")):
        for name, result in by_tool.items():
            metrics = result["metrics"]
            start = [case["vocabulary"], size(case["corpus"]), name]
            if not metrics:
                rows.append([*start, "", "", "", "", "", result["status"]])
                continue
            first = [spread(metrics["first_mb_s"]), ratio(result, "first_mb_s")]
            later = [spread(metrics["later_mb_s"]), ratio(result, "later_mb_s")]
            rows.append([*start, *first, *later, number(result["n_bytes"] / 1e6), equality(result)])
    head = ["vocabulary", "text", "tool", "first pass, MB/s", "bpejit times faster"]
    head += ["later passes, MB/s", "bpejit times faster", "MB encoded", "ids"]
    return f"{who(measured, 'encode')}\n\n{table(head, rows, left=3)}\n\n{loading_table(measured)}"


def loading_table(measured: Measured) -> str:
    """Seconds to load each vocabulary, which is not in the times; of the first text, for it does not depend on it."""
    results = [result for result in measured.of("encode") if result["metrics"]]
    tools = tools_of(results)
    first: dict[str, dict[str, Record]] = {}
    for case, by_tool in cases_of(results):
        first.setdefault(case["vocabulary"], by_tool)
    rows = [[name, *(middle(by_tool.get(tool), "load_seconds") for tool in tools)] for name, by_tool in first.items()]
    return table(["loading the vocabulary, seconds", *tools], rows)


def encode_file_block(measured: Measured) -> str:
    rows = []
    alone: dict[str, float] = {}
    for case, by_tool in cases_of(measured.of("encode-file")):
        for name, result in by_tool.items():
            if not result["metrics"]:
                rows.append([size(case["corpus"]), name, str(case["workers"]), "", result["status"], "", ""])
                continue
            rate = result["metrics"]["mb_s"]["median"]
            alone.setdefault(name, rate)
            start = [size(case["corpus"]), name, str(case["workers"])]
            gain = number(rate / alone[name]) if case["workers"] > 1 else ""
            rows.append([*start, spread(result["metrics"]["mb_s"]), gain, middle(result, "peak_mb"), ratio(result, "mb_s")])
    head = ["text", "tool", "workers", "MB/s", "times one worker", "peak MB", "bpejit times faster"]
    return table(head, rows, left=3)


def split_block(measured: Measured) -> str:
    rows = []
    for case, by_tool in cases_of(measured.of("split")):
        ours, regex = by_tool.get("bpejit"), by_tool.get("regex")
        if ours is None or regex is None:
            status = ours["status"] if ours else ""
            rows.append([case["pattern"], size(case["corpus"]), status, "", ""])
            continue
        both = [spread(ours["metrics"]["mb_s"]), middle(regex, "mb_s")]
        rows.append([case["pattern"], size(case["corpus"]), *both, ratio(regex, "mb_s")])
    return table(["pattern", "text", "bpejit, MB/s", "regex, MB/s", "times faster"], rows, left=2)


def wide_block(results: list[Record], label: Callable[[Record], str], metric: str, head: str) -> str:
    """A row per case, a column per tool."""
    tools = tools_of(results)
    rows = []
    for case, by_tool in cases_of(results):
        cells = []
        for name in tools:
            result = by_tool.get(name)
            if result is None or not result["metrics"]:
                cells.append(result["status"] if result else "-")
            else:
                cells.append(spread(result["metrics"][metric]))
        rows.append([label(case), *cells])
    return table([head, *tools], rows)


def bytes_label(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:g} MB" if n_bytes >= 1_000_000 else f"{n_bytes / 1e3:g} KB"


def long_block(measured: Measured) -> str:
    return wide_block(
        measured.of("long"), lambda case: f"{case['kind']}, {bytes_label(case['size'])}", "mb_s", "one pre-token, MB/s"
    )


def short_block(measured: Measured) -> str:
    rows = []
    for case, by_tool in cases_of(measured.of("short")):
        for name, result in by_tool.items():
            if result["metrics"]:
                metrics = result["metrics"]
                rows.append([name, spread(metrics["same_us"]), spread(metrics["lines_us"])])
            else:
                rows.append([name, result["status"], ""])
        head = [f"{case['vocabulary']}, microseconds a call", f"the same {case['same_bytes']} bytes"]
        head.append(f"{case['lines']:,} different strings, {case['mean_bytes']} bytes on average")
        return table(head, rows)
    return ""


def start_block(measured: Measured) -> str:
    rows = []
    for case, by_tool in cases_of(measured.of("start")):
        for name, result in by_tool.items():
            if not result["metrics"]:
                continue
            metrics = result["metrics"]
            text = spread(metrics["seconds"])
            if case["what"] == "first run":
                parts = ", ".join(f"{part} {middle(result, f'{part}_seconds')}" for part in ("train", "encode", "decode"))
                says = "it says that it compiles" if result["says_so"] else "it does not say that it compiles"
                text += f": {parts}; {says}"
            rows.append([START.get(case["what"], case["what"]), name, text])
    return table(["what", "tool", "seconds"], rows, left=3)


START = {
    "help": "`bpejit --help`",
    "encode 1 KB": "`bpejit encode` on 1 KB, everything compiled",
    "import, load, encode 1 KB": "a Python process: import, load GPT-2's vocabulary, encode 1 KB",
    "first run": "`bpejit train`, `encode` and `decode` on 100 KB, nothing compiled",
}


def baseline_block(measured: Measured) -> str:
    rows = []
    names = {
        "seconds": ("train, seconds", 1),
        "uncached_mb_s": ("encode, the baseline without its cache, MB/s", 0),
        "first_mb_s": ("encode, first pass, MB/s", 0),
        "later_mb_s": ("encode, later passes, MB/s", 0),
    }
    for case, by_tool in cases_of(measured.of("baseline")):
        ours, theirs = by_tool.get("bpejit"), by_tool.get("baseline")
        if ours is None or theirs is None:
            rows.append([case["what"], (ours or {}).get("status", ""), "", ""])
            continue
        detail = f"{case['merges']:,} merges" if "merges" in case else case["vocabulary"]
        for metric, (name, _) in names.items():
            if metric in ours["metrics"]:
                label = f"{name} ({size(case['corpus'])}, {detail})"
                rows.append([label, middle(theirs, metric), spread(ours["metrics"][metric]), ratio(theirs, metric)])
    return table(["", "baseline", "bpejit", "times faster"], rows)


def scaling_block(measured: Measured) -> str:
    rows = []
    for result in measured.of("scaling"):
        case, metrics = result["case"], result["metrics"]
        n_bytes = case["corpus"]["bytes"]
        rows.append(
            [
                f"{number(n_bytes / 1e6)} MB",
                f"{result['n_merges'] + 257:,}",
                spread(metrics["train_seconds"]),
                middle(result, "train_peak_mb"),
                number(n_bytes / metrics["first_seconds"]["median"] / 1e6),
                number(n_bytes / metrics["later_seconds"]["median"] / 1e6),
                middle(result, "encode_peak_mb"),
            ]
        )
    head = ["text", "vocabulary", "train, seconds", "peak MB", "encode, first pass, MB/s", "later passes, MB/s", "peak MB"]
    texts = list(dict.fromkeys(result["case"]["corpus"]["made"] for result in measured.of("scaling")))
    note = "\n".join(f"The text: {text}." for text in texts)
    return f"{note}\n\n{table(head, rows, left=0)}\n\n![Time and memory against size](results/{PLOT})" if rows else ""


BLOCKS: dict[str, Callable[[Measured], str]] = {
    "machine": machine_block,
    "corpora": corpora_block,
    "train": train_block,
    "encode": encode_block,
    "encode-file": encode_file_block,
    "split": split_block,
    "long": long_block,
    "short": short_block,
    "start": start_block,
    "baseline": baseline_block,
    "scaling": scaling_block,
}
"""What stands between the markers of each name in benchmarks/README.md."""


# ---- the block of the README


def readme_block(measured: Measured) -> str:
    last = measured.last
    parts = [
        f"Measured {last['run'][:10]} on {measured.name}, at commit {last['commit']}; figures are medians of several runs.",
        "Merges and ids were compared before they were timed, and are equal.",
        "[All figures](benchmarks/README.md), how they come about, and who cannot take part.",
    ]
    tables = [readme_train(measured), readme_encode(measured), readme_rest(measured)]
    return "\n\n".join(["\n".join(parts), *(part for part in tables if part)])


def readme_train(measured: Measured) -> str:
    results = [result for result in measured.of("train") if result.get("equal") is True]
    tools = tools_of(results)
    rows = []
    for case, by_tool in cases_of(results):
        cells = []
        for name in tools:
            result = by_tool.get(name)
            cells.append("-" if result is None else f"{middle(result, 'seconds')} s, {middle(result, 'peak_mb')} MB")
        rows.append([f"{case['vocab_size']:,} on {size(case['corpus'])}", *cells])
    if not rows:
        return ""
    threads = results[0]["threads"]
    return f"Training, {threads} workers: time and peak memory of all processes together\n\n{table(['', *tools], rows)}"


def readme_encode(measured: Measured) -> str:
    results = [result for result in measured.of("encode") if result["metrics"] and result["equal"] is True]
    tools = tools_of(results)
    rows = []
    for case, by_tool in cases_of(results):
        cells = [
            f"{middle(by_tool.get(name), 'first_mb_s')} / {middle(by_tool.get(name), 'later_mb_s')}" if name in by_tool else "-"
            for name in tools
        ]
        rows.append([f"{case['vocabulary']}, {case['corpus']['name']}", *cells])
    if not rows:
        return ""
    return f"Encoding, one thread, MB/s: first pass with a fresh cache / later passes\n\n{table(['', *tools], rows)}"


def readme_rest(measured: Measured) -> str:
    """What has one figure, or a range."""

    def ours(work: str) -> list[Record]:
        return [result for result in measured.of(work) if result["tool"] == "bpejit" and result["metrics"]]

    def between(results: list[Record], metric: str) -> str:
        figures = [result["metrics"][metric]["median"] for result in results]
        return f"{number(min(figures))} to {number(max(figures))} MB/s"

    rows = []
    if ours("split"):
        rows.append(["splitting, every preset and text, one core", between(ours("split"), "mb_s")])
    if ours("long"):
        sizes = [result["case"]["size"] for result in ours("long")]
        rows.append([f"one pre-token of {bytes_label(min(sizes))} to {bytes_label(max(sizes))}", between(ours("long"), "mb_s")])
    rows += [["a short string through `encode`", middle(result, "lines_us", " microseconds")] for result in ours("short")]
    spread_out = {result["case"]["workers"]: result for result in ours("encode-file")}
    if len(spread_out) > 1:
        one, many = min(spread_out), max(spread_out)
        figures = f"{middle(spread_out[one], 'mb_s')} MB/s with {one} worker, {middle(spread_out[many], 'mb_s')} with {many}"
        rows.append(["encoding from file to `tokens.bin`", figures])
    starts = [result for result in ours("start") if result["case"]["what"] in ("help", "encode 1 KB", "first run")]
    rows += [[START[result["case"]["what"]], middle(result, "seconds", " s")] for result in starts]
    for result in measured.of("baseline"):
        for metric, what in (
            ("seconds", "training"),
            ("uncached_mb_s", "encoding, first pass, there without a cache"),
            ("first_mb_s", "encoding, first pass, there with a cache"),
        ):
            if times := ratio(result, metric):
                rows.append([f"{what}, against [plain Python](benchmarks/baseline.py)", f"{times} times faster"])
    return table(["bpejit", ""], rows)


# ---- files


def replace_block(text: str, name: str, content: str) -> str:
    """Put content between the markers of that name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    pattern = re.compile(re.escape(begin) + r"\n.*?" + re.escape(end), re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"expected the markers {begin} and {end} once, each in a line of its own")
    return pattern.sub(lambda _: f"{begin}\n{content}\n{end}", text)


NOTHING = "`make bench` measures it on your machine."


def machines(folder: Path) -> list[Measured]:
    """What was measured on each kind of machine, the latest first."""
    found = [Measured(records) for records in map(read, sorted(folder.glob("*.jsonl"))) if records]
    return sorted(found, key=lambda measured: measured.last["run"], reverse=True)


def render_page(text: str, found: list[Measured]) -> str:
    """The benchmarks' page with its blocks filled; more than one machine get a heading each."""
    for name, block in BLOCKS.items():
        parts = [(measured.name, block(measured)) for measured in found]
        parts = [(machine, part) for machine, part in parts if part.strip()]
        if len(parts) > 1:
            content = "\n\n".join(f"**{machine}**\n\n{part}" for machine, part in parts)
        else:
            content = parts[0][1] if parts else NOTHING
        text = replace_block(text, name, content)
    return text


def render_readme(text: str, found: list[Measured]) -> str:
    return replace_block(text, "benchmarks", readme_block(found[0]) if found else NOTHING)


def render_files(folder: Path = RESULTS) -> None:
    """Render README.md, benchmarks/README.md and the plot from a folder of results."""
    found = machines(folder)
    PAGE.write_text(render_page(PAGE.read_text(), found))
    README.write_text(render_readme(README.read_text(), found))
    if found and found[0].of("scaling"):
        plot.draw(found[0].of("scaling"), RESULTS / PLOT)


def tables(records: list[Record]) -> str:
    """All tables of one run, for the terminal."""
    measured = Measured(records)
    parts = [f"## {name}\n\n{block(measured)}" for name, block in BLOCKS.items()]
    return "\n\n".join(part for part in parts if part.count("\n") > 2)
