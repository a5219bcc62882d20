"""Print the oldest version of each dependency that `pyproject.toml` declares, as pip's requirements.

Run it with the Python of an environment where bpejit is installed; its dependencies may be missing. It reads the metadata of
bpejit, so the versions are the declared ones, and evaluates conditions (`python_version < "3.13"`) for that Python.
The packages of the extras named as arguments are included.
"""

from __future__ import annotations

import importlib.metadata
import sys

from packaging.requirements import Requirement
from packaging.version import Version


def oldest_versions(requirements: list[str], extras: list[str]) -> dict[str, Version]:
    """Return the lower bound of each requirement that applies; the highest if a package is listed several times."""
    oldest: dict[str, Version] = {}
    for text in requirements:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in ["", *extras]):
            continue
        bounds = [Version(clause.version) for clause in requirement.specifier if clause.operator in (">=", "==")]
        if not bounds:
            raise SystemExit(f"{text} has no lower bound: declare the oldest version that is tested")
        oldest[requirement.name] = max([*bounds, *filter(None, [oldest.get(requirement.name)])])
    return oldest


if __name__ == "__main__":
    for name, version in oldest_versions(importlib.metadata.requires("bpejit") or [], sys.argv[1:]).items():
        print(f"{name}=={version}")
