"""How a pre-token is merged, step by step, and how a token is built from its bytes."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from bpejit.model import Model

LONGEST_TRACED = 1000
"""Longer pre-tokens, in bytes, are not traced: the time is quadratic in their length."""


class MergeStep(NamedTuple):
    """One merge of a pre-token.

    Parameters
    ----------
    rank : int, optional
        Index of the merge in the list of merges; the id of the result if the model merges by rank. None if the pre-token
        becomes a token without merges (see `bpejit.Model.ignore_merges`).
    result : bytes
        The token that the step makes.
    tokens : tuple of bytes
        The pre-token after the step.
    """

    rank: int | None
    result: bytes
    tokens: tuple[bytes, ...]


class MergeTracer:
    """Follows the merges of pre-tokens in plain Python.

    Parameters
    ----------
    model : Model
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._ranks = None if model.ranked else {pair: rank for rank, pair in enumerate(model.merges)}

    def rank(self, left: bytes, right: bytes) -> int | None:
        """Return the rank at which two tokens merge, or None if they do not."""
        if self._ranks is not None:
            return self._ranks.get((left, right))
        return self._model.ids.get(left + right)

    def steps(self, pretoken: bytes) -> list[MergeStep]:
        """Return the merges of a pre-token in order: at each step the pair of the lowest rank, the leftmost of equals.

        The last step has the tokens that encoding gives. A pre-token of more than `LONGEST_TRACED` bytes has no steps.
        """
        if len(pretoken) > LONGEST_TRACED:
            return []
        tokens = [pretoken[index : index + 1] for index in range(len(pretoken))]
        steps: list[MergeStep] = []
        while len(tokens) > 1:
            ranked = ((self.rank(*pair), at) for at, pair in enumerate(pairwise(tokens)))
            best = min(((rank, at) for rank, at in ranked if rank is not None), default=None)
            if best is None:
                break
            rank, at = best
            tokens[at : at + 2] = [tokens[at] + tokens[at + 1]]
            steps.append(MergeStep(rank, tokens[at], tuple(tokens)))
        whole = self._model.ranked or self._model.ignore_merges
        if whole and len(tokens) > 1 and pretoken in self._model.ids:
            return [MergeStep(None, pretoken, (pretoken,))]
        return steps
