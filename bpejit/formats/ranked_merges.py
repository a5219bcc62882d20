"""Conversion between ranked models (tiktoken's, where merges follow from the order of the ids) and lists of merges.

In a ranked model any two adjacent tokens merge if their concatenation is a token. `recover_merges` encodes the bytes of each
token with the ranks below its own. If two tokens are left for every token, as in all published vocabularies, then the list
of these pairs gives the same ids for every text:

- A run of tokens in an encoded text is also the encoding of its own bytes: no merge crossed its boundaries, so the same
  merges were made inside it, in the same order. That holds at each rank, for the text and the run as merged so far.
- So when a pair merges to the token `t`, and no lower rank has become applicable since, the pair is the encoding of `t` by
  the ranks below: the one recovered pair.
- No lower rank becomes applicable. Suppose that a new token `t` and its neighbor formed `u`, of lower rank. Before, their bytes
  were at least three tokens; but encoded alone they would already be `u`, since its own merge has a lower rank.

The same holds for a longer list, in which other ways to form each token come between the merges of the previous and of the
next token: such pairs are never adjacent in a text. `rank_obstacle` uses both.

Where a token cannot be recovered, all ways to form each token are listed (`list_all_splits`). That differs from the ranked
model only in that two ways to form one token have different ranks, where the ranked model takes the leftmost. No vocabulary
is known in which it matters; a search over random vocabularies of such tokens found none.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bpejit.arrays import Array, ByteStrings, padded_text
from bpejit.errors import TokenizerFormatError, shorten
from bpejit.kernels.constants import DONE
from bpejit.kernels.encoding import merge_rules, token_derivations
from bpejit.kernels.encoding.merge_rules import RuleTables
from bpejit.model import Model, in_order
from bpejit.packed_tokens import pairs_of
from bpejit.process_memory import huge_page_zeros

Merges = list[tuple[bytes, bytes]]

MergeRules = tuple[Array, Array, Array, Array]
"""Left, right and resulting internal token, and rank, of each pair that merges: int32 each."""


def ranked_rules(tokens: Mapping[int, bytes]) -> tuple[ByteStrings, MergeRules]:
    """Return the merge rules of a ranked model: all ways to form a token from two others have the token's rank.

    Returns
    -------
    strings : ByteStrings
        The bytes, then the other tokens in order of rank; a token's index is its internal id.
    rules : MergeRules
    """
    longer = [token for token in in_order(tokens) if len(token) > 1]
    strings = ByteStrings.from_list([*(bytes([byte]) for byte in range(256)), *longer])
    lefts, rights, merged = all_splits(strings)
    return strings, (lefts, rights, merged, merged - 256)


def all_splits(strings: ByteStrings) -> Array:
    """Return all ways to form a string from two others: left, right and resulting string, int32 [3, splits]."""
    slots = np.zeros(4 << len(strings).bit_length(), np.int32)
    found = np.empty((3, strings.pool.size), np.int32)
    n = token_derivations.list_splits(padded_text(strings.pool)[0], strings.starts, slots, *found)
    return found[:, :n].copy()


def make_rule_tables(rules: MergeRules, byte_pairs: Array) -> RuleTables:
    """Return the tables of merge rules; of several ranks of a pair, the lowest applies.

    Parameters
    ----------
    rules : MergeRules
    byte_pairs : uint32 [65536]
        NO_RANK or NEVER_ADJACENT; receives the ranks of pairs of bytes.
    """
    lefts, rights, made, ranks = rules
    merged = np.zeros(int(ranks.max(initial=-1)) + 1, np.uint32)
    merged[ranks] = made
    words = np.sort(merge_rules.as_rules(lefts, rights, ranks))
    pairs = words >> merge_rules.RIGHT_SHIFT
    is_lowest = np.ones(words.size, np.bool_)
    is_lowest[1:] = pairs[1:] != pairs[:-1]
    of_bytes = (lefts < 256) & (rights < 256)
    np.minimum.at(byte_pairs, lefts[of_bytes] << 8 | rights[of_bytes], ranks[of_bytes].astype(np.uint32))
    return RuleTables(*find_places(words[is_lowest]), byte_pairs, merged)


def find_places(rules: Array) -> tuple[Array, Array]:
    """Return the hash table of rules of distinct pairs, uint64 [rules], and its displacements (see `merge_rules`)."""
    n_slots, n_sets = 1 << (rules.size * 5 // 4).bit_length(), 1 << (rules.size // 4).bit_length()
    following = np.zeros(rules.size, np.int32)
    for doublings in range(5):
        merges = huge_page_zeros(n_slots << doublings, np.uint64)
        displacements, first = np.zeros(n_sets << doublings, np.uint8), np.zeros(n_sets << doublings, np.int32)
        if merge_rules.build_merges(rules, merges, displacements, first, following) == DONE:
            return merges, displacements
    raise TokenizerFormatError(
        f"the {rules.size} merges of the vocabulary cannot be stored, since the numbers of too many tokens have the same hash; "
        "expected tokens in the usual order: renumber the vocabulary"
    )


def recover_merges(tokens: Mapping[int, bytes]) -> tuple[Merges, list[bytes]]:
    """Return the list of merges that is equivalent to a vocabulary of ranks.

    Parameters
    ----------
    tokens : dict of int to bytes
        Ids and bytes. The order of the ids is the merge order, and every token that a merge needs is included.

    Returns
    -------
    merges : list of (bytes, bytes)
        In order of rank: for each token, the two tokens that the ranks below its own encode its bytes to.
    unreachable : list of bytes
        The tokens whose bytes are more than two tokens by the ranks below, in order of rank. Merges alone may never form them.

    Examples
    --------
    >>> recover_merges({**{byte: bytes([byte]) for byte in range(256)}, 256: b"ab", 257: b"abc", 258: b"xyz"})
    ([(b'a', b'b'), (b'ab', b'c')], [b'xyz'])
    """
    strings, listed = ranked_rules(tokens)
    internal = list(strings)
    rules = make_rule_tables(listed, np.full(1 << 16, merge_rules.NO_RANK, np.uint32))
    splits = np.zeros(len(internal), np.uint64)
    scratch = np.zeros(2 * max(map(len, internal)), np.uint32)
    token_derivations.derive_tokens(strings.pool, strings.starts, rules, True, scratch, splits)
    lefts, rights = splits >> merge_rules.LEFT_SHIFT, splits >> merge_rules.RIGHT_SHIFT & merge_rules.TOKEN_MASK
    is_made = splits != token_derivations.UNREACHABLE
    unreachable = [internal[token] for token in np.flatnonzero(~is_made).tolist()]
    is_made[:256] = False
    return pairs_of(internal, lefts[is_made], rights[is_made]), unreachable


def list_all_splits(tokens: Mapping[int, bytes]) -> Merges:
    """Return every way to form a token from two others, ordered by the ranks of the token and of the left one."""
    strings, (lefts, rights, merged, _) = ranked_rules(tokens)
    internal = list(strings)
    ids = {token: token_id for token_id, token in tokens.items()}
    rank = np.array([ids.get(token, -1) for token in internal])
    # A byte that is not in the vocabulary occurs in no pair.
    known = (rank[lefts] >= 0) & (rank[rights] >= 0)
    lefts, rights, merged = lefts[known], rights[known], merged[known]
    order = np.lexsort((rank[lefts], rank[merged]))  # the right token follows from the other two
    return pairs_of(internal, lefts[order], rights[order])


def as_merge_list(model: Model) -> Merges:
    """Return a list of merges that gives the same ids as a ranked model (see the module's docstring)."""
    merges, unreachable = recover_merges(model.tokens)
    return list_all_splits(model.tokens) if unreachable else merges


def rank_obstacle(model: Model) -> str | None:
    """Return why merging by rank would give different ids than a model's list of merges, or None if it would not."""
    if model.ranked:
        return None
    recovered, unreachable = recover_merges(model.tokens)
    ids = model.ids
    if unreachable:
        token = unreachable[0]
        others = f" (nor can {len(unreachable) - 1} others)" if len(unreachable) > 1 else ""
        return (
            f"the token {shorten(token)} (id {ids[token]}) cannot be formed by merging two tokens with lower ids{others}; by "
            "rank, a pre-token equal to it would become that token"
        )
    last = -1
    for number, (left, right) in enumerate(model.merges):
        merged = ids[left + right]
        if merged < last:
            return (
                f"merge {number + 1} forms the token {shorten(left + right)} (id {merged}) after the token with id {last}; "
                "by rank the lower id merges first"
            )
        last = merged
    listed = set(model.merges)
    for left, right in recovered:
        if (left, right) not in listed:
            return (
                f"by rank {shorten(left)} and {shorten(right)} merge to the token {shorten(left + right)} (id "
                f"{ids[left + right]}), which is not in the list of merges"
            )
    return None
