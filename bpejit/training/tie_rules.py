"""The registered tie rules: which of several equally frequent pairs is merged first.

Tools differ in this, so the rule has a name, is part of the result, and is saved with a tokenizer.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpejit.errors import ArgumentTypeError, TrainingError, shorten
from bpejit.normalization.byte_characters import CHARACTERS
from bpejit.options import Registry

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

    @property
    def in_words(self) -> str:
        """Which pair is merged first."""
        adjective, _, what = self.comparison.partition("-")
        return f"the {adjective} left token first, by its {what}, then the {adjective} right one"


_rules: Registry[TieRule] = Registry("tie rule", {}, reserved="", error=TrainingError)


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
    if not isinstance(rule, TieRule):
        raise ArgumentTypeError(f"rule is {shorten(rule)}; expected a TieRule: give one")
    _rules.register(name, lambda: rule)


unregister, tie_rule_names, load_tie_rule = _rules.unregister, _rules.names, _rules.load
"""Remove a rule, return the names of all rules, and return a rule by its name (see `Registry`)."""


# CS336
register("greatest-bytes", TieRule("greatest-bytes"))
# rustbpe and bpeasy
register("smallest-ids", TieRule("smallest-ids"))
# Hugging Face: bytes in the order of the characters that represent them in GPT-2's files
register("hf", TieRule("smallest-ids", tuple(sorted(BYTES, key=CHARACTERS.__getitem__))))
