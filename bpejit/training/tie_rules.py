"""The registered tie rules: which of several equally frequent pairs is merged first.

Tools differ in this, so the rule has a name, is part of the result, and is saved with a tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bpejit.errors import ArgumentTypeError, TrainingError, shorten
from bpejit.normalization.byte_characters import CHARACTERS

COMPARISONS = ("greatest-bytes", "smallest-bytes", "greatest-ids", "smallest-ids")
"""The comparisons of pairs, implemented by `comes_first` in kernels/training/buckets.py."""

BYTES = tuple(range(256))


@dataclass(frozen=True)
class TieRule:
    """A tie rule: a comparison of pairs, and an order of the bytes.

    Parameters
    ----------
    comparison : str
        "greatest-bytes" and "smallest-bytes" compare the bytes of the left tokens, then those of the right tokens.
        "greatest-ids" and "smallest-ids" compare the left ids, then the right ids, where merge `i` makes the id `256 + i`.
    byte_order : tuple of int
        All bytes in ascending order: the first one is the smallest in comparisons of bytes, and has the smallest id in
        comparisons of ids.

    Raises
    ------
    TrainingError
        If the comparison is unknown, or the order is not a permutation of all bytes.
    """

    comparison: str
    byte_order: tuple[int, ...] = BYTES

    def __post_init__(self) -> None:
        if self.comparison not in COMPARISONS:
            raise TrainingError(
                f"comparison is {shorten(self.comparison)}; expected one of {', '.join(map(repr, COMPARISONS))}: "
                "choose one of these"
            )
        if sorted(self.byte_order) != list(BYTES):
            raise TrainingError(
                f"byte_order is {shorten(self.byte_order)}; expected each number from 0 to 255 once: give a permutation of "
                "range(256)"
            )


_rules = {
    # CS336
    "greatest-bytes": TieRule("greatest-bytes"),
    # rustbpe and bpeasy
    "smallest-ids": TieRule("smallest-ids"),
    # Hugging Face: bytes in the order of the characters that represent them in GPT-2's files
    "hf": TieRule("smallest-ids", tuple(sorted(BYTES, key=CHARACTERS.__getitem__))),
}

TIE_RULES: Mapping[str, TieRule] = MappingProxyType(_rules)
"""The tie rules by name, read-only. See `register`."""


def register(name: str, rule: TieRule) -> None:
    """Add a tie rule that functions and commands select by name.

    Parameters
    ----------
    name : str
        Saved with the tokenizers that are trained by this rule.
    rule : TieRule

    Raises
    ------
    ArgumentTypeError
        If an argument has the wrong type.
    TrainingError
        If the name is taken, or is not a valid name.
    """
    if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
        raise TrainingError(
            f"the name of the tie rule is {shorten(name)}; expected letters, digits, `-` and `_`: choose another name"
        )
    if not isinstance(rule, TieRule):
        raise ArgumentTypeError(f"rule is {shorten(rule)}; expected a TieRule: give one")
    if name in _rules:
        raise TrainingError(f"there is already a tie rule {shorten(name)}; expected a new name: choose another one")
    _rules[name] = rule


def unregister(name: str) -> None:
    """Remove a tie rule.

    Raises
    ------
    TrainingError
        If there is no tie rule with this name.
    """
    if name not in _rules:
        raise TrainingError(
            f"the tie rule {shorten(name)} is not known; expected one of {', '.join(_rules)}: choose one of these"
        )
    del _rules[name]
