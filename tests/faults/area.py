"""The common interface of the areas of fault injection."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Protocol


class WrongError(Exception):
    """Raised for a wrong result, a lost file, or an error of the wrong kind."""


class Area(Protocol):
    """A module that injects one kind of fault.

    Attributes
    ----------
    TITLE : str
        A description, for the table.
    CASES : int
        The number of cases in a run of the usual size.
    TIMEOUT : float
        The seconds after which a case counts as hanging.
    """

    TITLE: str
    CASES: int
    TIMEOUT: float

    def prepare(self, folder: Path) -> Any:
        """Create the state that all cases of a process share, in a folder of its own."""

    def attempt(self, shared: Any, case: random.Random, number: int) -> str:
        """Run one case; return its outcome in a word or two, and raise `WrongError` if bpejit failed.

        Cases are drawn from `case`; an area with a fixed list of cases uses `number`.
        """
