"""Vocabularies whose merges follow from the order of their ids (tiktoken's), as lists of merges, and the other way round.

In a ranked model any two neighbours merge whose bytes together are a token. `recover_merges` asks, for each token, what the
ranks below its own make of its bytes. If that is two parts for every token, as in all published vocabularies, then the list
of these pairs gives the same ids for every text:

- A run of tokens that stands in an encoded text is also what its bytes alone become: no merge crossed its ends, so the same
  merges were made in it, in the same order. That holds at each rank, for the text and the run as merged so far.
- So when a pair merges to the token `t`, and no lower rank has come up since, it is what the ranks below make of `t`: the
  one recovered pair, wherever it stands.
- And no lower rank comes up. Suppose that a new token `t` and its neighbour made `u`, of lower rank. Before, their bytes were
  three tokens or more; but alone they would by then be `u`, since its own merge has a lower rank.

The same holds for a longer list in which other ways to make each token have places between the merges of the token before
and of the one after: such pairs never stand side by side. `rank_obstacle` uses both.

Where a token cannot be recovered, all ways to make each token are listed (`list_all_splits`): that differs from the ranked
model only in that two different ways to make one token have places of their own, where the ranked model takes the leftmost.
No vocabulary is known in which it matters; random ones of such tokens were searched for it.
"""

from __future__ import annotations

import numpy as np

from bpejit.encoding.encoder_tables import ranked_rules
from bpejit.errors import shorten
from bpejit.kernels.encoding.merge_recovery import recover_splits
from bpejit.kernels.encoding.merge_rules import FREE, build_pairs
from bpejit.model import Model

Merges = list[tuple[bytes, bytes]]


def recover_merges(tokens: dict[int, bytes]) -> tuple[Merges, list[bytes]]:
    """Return the merges that a vocabulary of ranks stands for.

    Parameters
    ----------
    tokens : dict of int to bytes
        Ids and bytes; the order of the ids is the order of merging. All parts that merges need are among them.

    Returns
    -------
    merges : list of (bytes, bytes)
        In order of rank: for each token the two parts that the ranks below its own make of its bytes.
    unreachable : list of bytes
        The tokens of which more than two parts are left, in order of rank: merges alone may never make them.

    Examples
    --------
    >>> recover_merges({**{byte: bytes([byte]) for byte in range(256)}, 256: b"ab", 257: b"abc", 258: b"xyz"})
    ([(b'a', b'b'), (b'ab', b'c')], [b'xyz'])
    """
    internal, strings, (left, right, made, ranks) = ranked_rules(tokens)
    pairs = np.full(max(2 << left.size.bit_length(), 4), FREE, dtype=np.uint64)
    byte_pairs, merged = np.zeros(1 << 16, dtype=np.uint32), np.zeros(len(internal), dtype=np.uint32)
    build_pairs(left, right, made, ranks, pairs, byte_pairs, merged)
    lefts, rights = (np.empty(len(internal), dtype=np.int32) for _ in range(2))
    scratch = np.zeros(2 * max(map(len, internal)), dtype=np.uint32)
    recover_splits(strings.pool, strings.starts, pairs, scratch, lefts, rights)
    merges: Merges = []
    unreachable: list[bytes] = []
    for token, first, second in zip(internal[256:], lefts[256:].tolist(), rights[256:].tolist(), strict=True):
        if first < 0:
            unreachable.append(token)
        else:
            merges.append((internal[first], internal[second]))
    return merges, unreachable


def list_all_splits(tokens: dict[int, bytes]) -> Merges:
    """Return every way to make a token of two others, in order of rank; those of one token by the ranks of their parts."""
    internal, _, (lefts, rights, made, _) = ranked_rules(tokens)
    ids = {token: number for number, token in tokens.items()}
    rank = np.array([ids.get(token, -1) for token in internal])
    # A byte without a token, which no text has, is a part of nothing.
    some = (rank[lefts] >= 0) & (rank[rights] >= 0)
    lefts, rights, made = lefts[some], rights[some], made[some]
    order = np.lexsort((rank[rights], rank[lefts], rank[made]))
    columns = (column[order].tolist() for column in (lefts, rights))
    return [(internal[left], internal[right]) for left, right in zip(*columns, strict=True)]


def as_merge_list(model: Model) -> Merges:
    """Return the merges of a model; those of a ranked one as a list that gives the same ids (see above)."""
    if not model.ranked:
        return model.merges
    merges, unreachable = recover_merges(model.tokens)
    return list_all_splits(model.tokens) if unreachable else merges


def rank_obstacle(model: Model) -> str | None:
    """Return why merging by the order of ids would give other ids than a model's list of merges; None if it would not."""
    if model.ranked:
        return None
    recovered, unreachable = recover_merges(model.tokens)
    ids = model.ids
    if unreachable:
        token = unreachable[0]
        return (
            f"no merges of tokens with lower ids make {shorten(token)} (id {ids[token]}), nor {len(unreachable) - 1} "
            "other tokens; by rank it would be a token wherever it stands alone"
        )
    last = -1
    for number, (left, right) in enumerate(model.merges):
        made = ids[left + right]
        if made < last:
            return (
                f"merge {number + 1} makes the token {shorten(left + right)} (id {made}) after that of id {last}; "
                "by rank the lower id merges first"
            )
        last = made
    listed = set(model.merges)
    for left, right in recovered:
        if (left, right) not in listed:
            return (
                f"by rank {shorten(left)} and {shorten(right)} merge to the token {shorten(left + right)} (id "
                f"{ids[left + right]}), and that is not among the merges"
            )
    return None
