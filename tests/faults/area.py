"""What the areas of fault injection have in common."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Protocol


class WrongError(Exception):
    """A promise that was broken: a wrong result, a lost file, an error of the wrong kind."""


class Area(Protocol):
    """A kind of faults, as a module.

    Attributes
    ----------
    TITLE : str
        What is tried, for the table.
    CASES : int
        How many cases a run of the usual size has.
    TIMEOUT : float
        The seconds after which a case counts as hanging.
    """

    TITLE: str
    CASES: int
    TIMEOUT: float

    def prepare(self, folder: Path) -> Any:
        """Make what all cases of a process share, in a folder of its own."""

    def attempt(self, shared: Any, case: random.Random, number: int) -> str:
        """Try one case; return how it ended in a word or two, and raise `WrongError` where a promise was broken.

        Cases are drawn from `case`; an area that tries all of a few goes by the `number` of the case.
        """
