"""The summary of skipped tests: a line for each cause."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""

NEEDS_DATA = "needs the larger corpora and published vocabularies"
"""The prefix of the skip reason of tests that lack optional data."""

OTHER_DISTRIBUTIONS = {"google": "protobuf", "tiktoken_ext": "tiktoken"}
"""Distributions of modules with other names."""


def find_distributions() -> set[str]:
    """Return the distributions that the project names: in its extras, and for the environments of other readers."""
    listed = re.findall(r'"([\w-]+)(?:\[\w+\])?[<>=]', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for path in (ROOT / "tests" / "readers").glob("*.txt"):
        listed += re.findall(r"^([\w-]+)==", path.read_text(encoding="utf-8"), re.MULTILINE)
    return set(listed)


def summarize_skips(reasons: list[str]) -> list[str]:
    """Return a line for each cause for which tests were skipped, with the number of tests and what to do about it.

    Only names that are known to be distributions are advised to be installed: anybody could register another one.
    """
    data = sum(reason.startswith(NEEDS_DATA) for reason in reasons)
    others = Counter(reason for reason in reasons if not reason.startswith(NEEDS_DATA))
    distributions = find_distributions()
    packages: Counter[str] = Counter()
    tools: dict[str, Counter[str]] = {}
    for reason, number in list(others.items()):
        missing = re.match(r"could not import '(\w+)|([\w.-]+) is not installed(?:: (.+))?", reason)
        if missing is None:
            continue
        name = missing[1] or missing[2]
        distribution = OTHER_DISTRIBUTIONS.get(name, name)
        if missing[3]:
            tools.setdefault(missing[3], Counter())[name] += number
        elif distribution in distributions:
            packages[distribution] += number
        else:
            continue
        del others[reason]
    lines = []
    if data:
        lines.append(
            f"{data} skipped: they need larger corpora and published vocabularies. CONTRIBUTING.md, Optional data, "
            "lists where they are published; set BPEJIT_SHARED_DATA to their folder"
        )
    if packages:
        lines.append(f"{packages.total()} skipped: they need optional packages. pip install {' '.join(sorted(packages))}")
    lines += [f"{names.total()} skipped: they need {', '.join(sorted(names))}. {advice}" for advice, names in tools.items()]
    lines += [f"{number} skipped: {reason}" for reason, number in others.items()]
    return lines
