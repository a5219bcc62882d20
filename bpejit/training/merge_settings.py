"""The settings of learning merges."""

from __future__ import annotations

from dataclasses import dataclass

from bpejit import arguments
from bpejit.errors import TrainingError
from bpejit.training.tie_rules import tie_rule_names


@dataclass(frozen=True)
class MergeSettings:
    """Settings of learning merges (see `MergeOptions`), checked when they are made.

    Raises
    ------
    ArgumentTypeError, TrainingError
    """

    tie_break: str = "greatest-bytes"
    min_frequency: int = 1
    max_token_bytes: int | None = None

    def __post_init__(self) -> None:
        most = 2**62
        checked = {
            "tie_break": arguments.choice("tie_break", self.tie_break, tie_rule_names(), error=TrainingError),
            "min_frequency": arguments.whole_number(
                "min_frequency", self.min_frequency, least=1, most=most, error=TrainingError
            ),
            "max_token_bytes": arguments.optional_whole_number(
                "max_token_bytes", self.max_token_bytes, least=1, most=most, error=TrainingError
            ),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)  # a plain int instead of one of NumPy
