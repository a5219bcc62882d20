from __future__ import annotations

from pathlib import Path

from ..corpora import ROOT
from .base import Tool

FOLDER = ROOT / ".bench" / "bpejit-earlier"
"""The environment that `make bench` creates from benchmarks/environments/bpejit-earlier.txt."""


class BpejitEarlier(Tool):
    """bpejit before sentences were merged faster, from which the target of `bpejit encode` is counted; only its commands."""

    name = "bpejit-earlier"
    package = "bpejit"
    only_by_name = True

    @property
    def interpreter(self) -> str:
        return str(FOLDER / "bin" / "python")

    @property
    def command(self) -> list[str]:
        # Isolated, because it would otherwise import the package of this checkout.
        return [self.interpreter, "-I", "-m", self.package]

    def version(self) -> str | None:
        return "f632089" if Path(self.interpreter).is_file() else None
