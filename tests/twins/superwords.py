"""Superwords: merges of words, and then merges of runs of words that are one token each.

The rules of `super` and `boundless` are those of arXiv 2604.05192 and of its code, kensho-technologies/fastboundlessbpe at
version 0.1 (April 2026), `python/boundlessbpe/train.py`, unless a line says otherwise. `learn_authors` is the second stage of
SuperBPE, arXiv 2503.13423, as in alisawuffles/tokenizers-superbpe, `tokenizers/src/models/bpe/trainer.rs`, `do_train_extend`.
"""

from __future__ import annotations

from itertools import pairwise

from twins.training import learn_merges, merge_some, replace_pair

Words = list[tuple[list[bytes], int]]
"""The words of each pre-token that is a sequence of words, and its count."""

Merges = list[tuple[bytes, bytes, int]]
"""Left side, right side and count of each merge."""


def find_runs(pretokens: Words, ids: dict[bytes, int], joins: set[tuple[int, int]]) -> list[tuple[list[int], int]]:
    """Return the runs as ids, and their counts.

    A run is at least two adjacent words that are one token each (`pretokenize_super`: neighbors in the set
    `supermerge_eligible`, "need at least 2 consecutive eligible pretokens"). No run crosses a document.

    Not in that code: a run also ends where a merge may join the last byte of a word with the first one of the next (`joins`),
    since one list of merges would merge there.
    """
    runs = []
    for words, count in pretokens:
        run: list[bytes] = []
        for word in [*words, b""]:
            if run and (word not in ids or (run[-1][-1], word[0]) in joins):
                if len(run) > 1:
                    runs.append(([ids[one] for one in run], count))
                run = []
            if word in ids:
                run.append(word)
    return runs


def tokens_of(merges: Merges) -> list[bytes]:
    """Return the bytes, and the tokens that merges make."""
    return [bytes([byte]) for byte in range(256)] + [left + right for left, right, _ in merges]


def apply_merges(texts: list[bytes], merges: Merges) -> list[list[int]]:
    """Return the tokens of texts: each merge in turn, at all of its occurrences, from the left."""
    ids = {token: number for number, token in enumerate(tokens_of(merges))}
    pairs = [(ids[left], ids[right]) for left, right, _ in merges]
    sequences = [list(text) for text in texts]
    for number, pair in enumerate(pairs, 256):
        sequences = [replace_pair(one, pair, number) if pair in pairwise(one) else one for one in sequences]
    return sequences


def learn_both(
    pretokens: Words, n_words: int, n_more: int, rule: str, least: int, max_words: int | None
) -> tuple[Merges, Merges]:
    """Return the merges of words, and those of superwords after them.

    - The first phase is that of any tokenizer.
    - A token stands for a word if it is encoded as itself (`find_reachable_tokens`).
    - The most frequent pair of all runs is merged (`choose_best_pair`). In that code, the pair with the smallest bytes comes
      first among equally frequent ones, and of overlapping occurrences of a pair of equal tokens every second one counts
      (`get_stats`). Here it is the tie rule of training, and all of them, as everywhere in bpejit.
    - `max_words` is not in that code; SuperBPE has a limit of four (see `learn_authors`).
    """
    counts: dict[bytes, int] = {}
    for words, count in pretokens:
        for word in words:
            counts[word] = counts.get(word, 0) + count
    learned = learn_merges(counts, n_words, rule, least)
    tokens = [bytes([byte]) for byte in range(256)]
    first: Merges = []
    for left, right, count in learned:
        first.append((tokens[left], tokens[right], count))
        tokens.append(tokens[left] + tokens[right])
    encoded = zip(tokens, apply_merges(tokens, first), strict=True)
    ids = {token: number for number, (token, sequence) in enumerate(encoded) if sequence == [number]}
    runs = find_runs(pretokens, ids, {(left[-1], right[0]) for left, right, _ in first})
    sizes = [1] * len(tokens)
    more = merge_some(runs, tokens, len(tokens) + n_more, rule, least, max_words, sizes)
    return first, [(tokens[left], tokens[right], count) for left, right, count in more]


def learn_super(
    pretokens: Words, n_words: int, n_more: int, rule: str = "greatest-bytes", least: int = 1, max_words: int | None = None
) -> Merges:
    """Return `n_words` merges of words, and then those of superwords until there are `n_words + n_more` merges.

    As with `SuperBpeTrainer`: all merges of words, then merges of superwords (`superbpe_mode`).
    """
    first, more = learn_both(pretokens, n_words, n_words + n_more, rule, least, max_words)
    return [*first, *more][: n_words + n_more]


def learn_boundless(
    pretokens: Words, n_merges: int, rule: str = "greatest-bytes", least: int = 1, max_words: int | None = None
) -> Merges:
    """Return the more frequent merges of words and of superwords, `n_merges` in all, those of words first.

    As with `BoundlessBpeTrainer`: runs are those of the words of a whole vocabulary, and a merge of superwords is taken if it
    is more frequent than the next one of words ("ties go to the regular merge"). Without deletions (`tau` above 1).
    """
    first, more = learn_both(pretokens, n_merges, n_merges, rule, least, max_words)
    n_words = n_more = 0
    while n_words + n_more < min(n_merges, len(first) + len(more)):
        if n_more < len(more) and (n_words == len(first) or more[n_more][2] > first[n_words][2]):
            n_more += 1
        else:
            n_words += 1
    return first[:n_words] + more[:n_more]


AUTHORS_PATTERN = r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)"
"""The pattern of the second stage of SuperBPE (PythonNut/superbpe, `scripts/extend_tokenizer.sh`): all else is not split."""


def learn_authors(pieces: dict[bytes, int], first: Merges, n_more: int) -> Merges:
    """Return the merges of the second stage of SuperBPE, from pieces of text that its pattern separates.

    - The merges of the first stage are applied to the pieces, also between words; then all pairs count, those of parts of words
      as well.
    - Among equally frequent pairs, the one with the smallest ids comes first: those of bytes are in the order of GPT-2's
      characters.
    - A pair is not merged if its token would have a colon before a space, or more than four parts between spaces.
    """
    tokens = tokens_of(first)
    sequences = list(zip(apply_merges(list(pieces), first), pieces.values(), strict=True))

    def refuses(token: bytes) -> bool:
        return b": " in token or len(token.split(b" ")) - token.split(b" ").count(b"") > 4

    more = merge_some(sequences, tokens, len(tokens) + n_more, "hf", refuses=refuses)
    return [(tokens[left], tokens[right], count) for left, right, count in more]
