"""`bpejit.explain`: learn merges in plain Python, one step at a time, and record what each step does.

It works as the kernels of training do (see `kernels/training/pairs.py` and `kernels/training/buckets.py`), on lists of ids:

- a pair can gain occurrences only in the merge that makes the newer of its two tokens. So the list of words that contain it is
  written once; an entry is stale if its word no longer contains the pair, and is skipped when the list is read;
- after that merge the count of the pair only falls. So a pair is in the bucket of its count or in a higher one, from which it
  is moved when that bucket is opened.

The kernels list positions instead of words, let large counts share a bucket, and give rare pairs no list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from bpejit import arguments
from bpejit.arrays import ByteStrings, PretokenTable, padded_text
from bpejit.corpus.chunks import iterate_texts
from bpejit.corpus.input_paths import Inputs
from bpejit.corpus.sources import total_bytes
from bpejit.counting.count_corpus import count_corpus, open_inputs
from bpejit.counting.count_options import SplitSettings
from bpejit.counting.header import CountSettings
from bpejit.engines import checked_work
from bpejit.errors import CorpusError, OptionError, shorten
from bpejit.inspection.merge_trace import MergeTrace, Record
from bpejit.kernels.training import symbol_cells as kernels
from bpejit.options import chosen, takes
from bpejit.splitting import Splitter
from bpejit.splitting.presets import pattern_source
from bpejit.training.alphabets import Alphabet, find_alphabet
from bpejit.training.symbol_settings import SymbolOptions, SymbolSettings
from bpejit.training.tie_rules import load_tie_rule
from bpejit.training.train_options import ExplainOptions, MergeChoices, MergeSettings, limited
from bpejit.utf8 import encode_utf8, has_surrogates

if TYPE_CHECKING:
    from typing_extensions import Unpack

MOST_BYTES = 1_000_000
"""Largest text that is explained: plain Python takes seconds for it."""

N_WORDS = 40
"""Number of words that are recorded for each merge."""

N_BUCKETS = 6
"""Number of buckets that are recorded for each merge: the highest ones."""

Pair = tuple[int, int]
"""The ids of two adjacent tokens. Ids below 256 are bytes; merge `i` makes the token `256 + i`."""


class PlainLearner:
    """Learns merges of a few words.

    Attributes
    ----------
    tokens : list of bytes
        The bytes of each token, by id. If words begin with symbols, their ids follow those of the bytes.
    sizes : list of int
        What `max_token_bytes` limits, by id.
    words, weights : list of list of int, list of int
        The ids of each word, and how often it occurs.
    counts : Counter
        The current count of each pair.
    index : dict of pair to list of int
        The numbers of the words that contain a pair, or did so when its newer token was made.
    buckets : dict of int to list of pair
        The pairs of a count, and those whose count has fallen since they were put there.
    joins : set of pair
        The bytes on both sides of the border within each token that a merge has made.
    """

    def __init__(self, words: Mapping[bytes, int], settings: MergeSettings, symbols: SymbolSettings | None = None) -> None:
        self.settings = limited(settings, symbols)
        self.rule = load_tie_rule(settings.tie_break)
        self.tokens = [bytes([byte]) for byte in range(256)]
        self.sizes = [1] * 256
        self.joins: set[Pair] = set()
        if symbols is None:
            self.begin([list(word) for word in words], list(words.values()))
        else:
            self._begin_with(symbols, words)

    def begin(self, words: list[list[int]], weights: list[int]) -> None:
        """Begin with words, whose ids are those of tokens so far, and with their counts."""
        self.words, self.weights = words, weights
        self.counts: Counter[Pair] = Counter()
        self.index: dict[Pair, list[int]] = {}
        self.buckets: dict[int, list[Pair]] = {}
        for number, word in enumerate(self.words):
            add_pairs(self.counts, word, self.weights[number])
            self._list_word(number, pairwise(word))
        for pair in self.index:
            self._follow(pair)

    def _begin_with(self, symbols: SymbolSettings, words: Mapping[bytes, int]) -> None:
        """Replace bytes by symbols."""
        strings = ByteStrings.from_list(list(words))
        weights = np.array(list(words.values()), np.int64)
        alphabet = find_alphabet(PretokenTable(strings.pool, strings.starts, weights), symbols)
        self.tokens += alphabet.tokens
        self.sizes += alphabet.sizes.tolist()
        spelled: Counter[tuple[int, ...]] = Counter()
        for word, weight in words.items():
            for ids in spell(word, alphabet):
                spelled[tuple(ids)] += weight
        self.begin(list(map(list, spelled)), list(spelled.values()))

    def _list_word(self, number: int, pairs: Iterable[Pair]) -> None:
        """Add a word to the lists of pairs."""
        for pair in dict.fromkeys(pairs):
            self.index.setdefault(pair, []).append(number)

    def _follow(self, pair: Pair) -> None:
        """Put a pair into the bucket of its count, if it may be merged."""
        count = self.counts[pair]
        longest = self.settings.max_token_bytes
        fits = longest is None or sum(self.sizes[token] for token in pair) <= longest
        if fits and count >= self.settings.min_frequency:
            self.buckets.setdefault(count, []).append(pair)

    def candidates(self) -> list[Pair]:
        """Take the pairs with the highest count from their bucket, in the order of the tie rule. There may be none."""
        while self.buckets:
            top = max(self.buckets)
            opened = self.buckets.pop(top)
            for pair in opened:
                if self.counts[pair] < top:
                    self._follow(pair)  # into the bucket of its count
            found = [pair for pair in opened if self.counts[pair] == top]
            if found:
                return sorted(found, key=self.tie_key, reverse=self.rule.comparison.startswith("greatest"))
        return []

    def tie_key(self, pair: Pair) -> list[Any]:
        """Return what the tie rule compares: the bytes or the ids of the left token, then those of the right one."""
        place = self.rule.byte_order.index
        if self.rule.comparison.endswith("bytes"):
            return [bytes(map(place, self.tokens[token])) for token in pair]
        return [place(token) if token < 256 else token for token in pair]

    def merge(self) -> Record | None:
        """Merge the next pair in all words. Return what was done, or None if nothing is left to merge."""
        buckets = self._recorded_buckets()
        found = self.candidates()
        if not found:
            return None
        pair, *tied = found
        for other in tied:
            self._follow(other)
        count = self.counts[pair]
        merged = len(self.tokens)
        self.tokens.append(self.tokens[pair[0]] + self.tokens[pair[1]])
        self.sizes.append(self.sizes[pair[0]] + self.sizes[pair[1]])
        self.joins.add((self.tokens[pair[0]][-1], self.tokens[pair[1]][0]))
        changes: Counter[Pair] = Counter()
        changed: set[int] = set()
        for number in self.index[pair]:
            word = self.words[number]
            replaced = merge_in_word(word, pair, merged)
            if len(replaced) == len(word):
                continue  # a stale entry
            changed.add(number)
            self.words[number] = replaced
            add_pairs(changes, word, -self.weights[number])
            add_pairs(changes, replaced, self.weights[number])
            self._list_word(number, (new for new in pairwise(replaced) if merged in new))
        self.counts.update(changes)
        del changes[pair]
        for other in changes:
            if merged in other:
                self._follow(other)
        return {
            "pair": self._named(pair),
            "token": self._named([merged])[0],
            "count": count,
            "buckets": buckets,
            "tied": [self._named(other) for other in tied],
            "listed": len(self.index[pair]),
            "stale": len(self.index[pair]) - len(changed),
            "words": self.shown_words(changed),
            "changes": self._changed_counts(changes),
        }

    def shown_words(self, changed: set[int]) -> list[Record]:
        """Return the words: those that changed first, if there are too many."""
        shown = sorted(range(len(self.words)), key=lambda number: number not in changed)[:N_WORDS]
        return [
            {
                "tokens": self._named(self.words[number]),
                "count": self.weights[number],
                "changed": number in changed,
            }
            for number in sorted(shown)
        ]

    def _recorded_buckets(self) -> list[Record]:
        """Return the highest buckets as they are, with pairs whose count has fallen."""
        found = []
        for count in sorted(self.buckets, reverse=True)[:N_BUCKETS]:
            pairs = [{"pair": self._named(pair), "count": self.counts[pair]} for pair in self.buckets[count]]
            found.append({"count": count, "pairs": pairs})
        return found

    def _changed_counts(self, changes: Counter[Pair]) -> list[Record]:
        """Return the counts before and after a merge, the largest ones before it first."""
        found = []
        for pair, change in changes.items():
            if change:
                count = self.counts[pair]
                found.append({"pair": self._named(pair), "before": count - change, "count": count})
        return sorted(found, key=itemgetter("before", "count"), reverse=True)

    def _named(self, ids: Iterable[int]) -> list[str]:
        """Return tokens for JSON; a byte that is not valid UTF-8 becomes a surrogate, from U+DC80 to U+DCFF."""
        return [self.tokens[token].decode("utf-8", "surrogateescape") for token in ids]


def add_pairs(counts: Counter[Pair], word: list[int], weight: int) -> None:
    """Add a weight to the count of each pair of a word; overlapping occurrences all count, so a a a has a a twice."""
    for pair in pairwise(word):
        counts[pair] += weight


def merge_in_word(word: list[int], pair: Pair, merged: int) -> list[int]:
    """Return a word with a token in place of each occurrence of a pair, from the left."""
    replaced: list[int] = []
    for token in word:
        if replaced and (replaced[-1], token) == pair:
            replaced[-1] = merged
        else:
            replaced.append(token)
    return replaced


def spell(pretoken: bytes, alphabet: Alphabet) -> Iterator[list[int]]:
    """Yield the words of a pre-token as ids of symbols."""
    of_character, of_byte, spelled, at_end = alphabet.arrays
    first = int(kernels.FIRST_SYMBOL)  # older NumPy makes a float of an int less a uint64
    text = pretoken.decode("utf-8", "surrogateescape")
    prefixed = alphabet.prefix != kernels.NO_PREFIX and of_character[ord(text[0])] != alphabet.prefix
    ids, is_last = ([int(alphabet.prefix)] if prefixed else []), prefixed
    for character in [*text, None]:
        if character is None or of_character[ord(character)] == kernels.SEPARATES:
            if ids and is_last:
                ids[-1] = int(at_end[ids[-1] - first])
            if ids:
                yield ids
            ids, is_last = [], False
            continue
        code, data = ord(character), character.encode("utf-8", "surrogateescape")
        symbol = of_byte[data[0]] if has_surrogates(character) else of_character[code]
        is_last = symbol != kernels.LEFT_OUT
        if is_last:
            ids += [int(spelled[byte]) for byte in data] if symbol == kernels.SPELLED else [int(symbol)]


@takes(ExplainOptions)
def explain(inputs: Inputs | None = None, **options: Unpack[ExplainOptions]) -> MergeTrace:
    """Learn merges as `train` does, step by step in plain Python, and record what each step does.

    Parameters
    ----------
    inputs : path, list of paths, or iterator of texts, optional
        As for `train`, up to 1 MB of text; or `text` or `words` instead.
    {options}

    Returns
    -------
    MergeTrace
        Prints the steps, and shows them in notebooks.

    Raises
    ------
    ArgumentTypeError, CorpusError, OptionError, PatternError, TrainingError
    """
    settings = MergeSettings(**chosen(MergeChoices, options))
    symbols = SymbolSettings.checked(max_token_bytes=options["max_token_bytes"], **chosen(SymbolOptions, options))
    if symbols is not None:
        options["pattern"] = symbols.pattern(options["pattern"])
    most = arguments.whole_number("merges", options["merges"], least=0, most=1000)
    report = arguments.progress(options["progress"])
    n_words = arguments.optional_whole_number("word_merges", options["word_merges"], least=0)
    if n_words is not None and (symbols is not None or options["words"] is not None):
        raise OptionError("word_merges is given, and words or symbols are; expected text that begins as bytes: leave one out")
    counts = _words_of(inputs, options)
    sequences: _Sequences = [] if n_words is None else _sequences(counts, options)
    learner = PlainLearner(counts if n_words is None else _counted_words(sequences), settings, symbols)
    record: Record = {"words": learner.shown_words(set()), "n_words": len(learner.words)}
    record |= dict.fromkeys(("runs", "n_runs", "merges_of_words"))
    index = {"lists": 0, "entries": 0}
    merges: list[Record] = []
    report("merge", 0, most, "merges")
    for stage, until in enumerate((most,) if n_words is None else (min(n_words, most), most)):
        if stage:
            learner.begin(*_runs(sequences, learner))
            record |= {"runs": learner.shown_words(set()), "n_runs": len(learner.words), "merges_of_words": len(merges)}
        while len(merges) < until and (merge := learner.merge()):
            merges.append(merge)
            report("merge", len(merges), most, "merges")
        index["lists"] += len(learner.index)
        index["entries"] += sum(map(len, learner.index.values()))
    rule = {"tie_break": settings.tie_break, "tie_rule": learner.rule.in_words}
    return MergeTrace({**rule, **record, "merges": merges, "complete": len(merges) < most, **index})


_Sequences = list[tuple[list[bytes], int]]
"""The words of each pre-token that is a sequence of words, and its count."""


def _sequences(counts: Mapping[bytes, int], options: ExplainOptions) -> _Sequences:
    """Divide pre-tokens into words."""
    settings = CountSettings.checked(**chosen(SplitSettings, options))
    splitter = Splitter(pattern_source(settings.pattern), unicode=settings.unicode)
    found = []
    for data, count in counts.items():
        ends = splitter.split(*padded_text(data)).tolist()
        found.append(([data[start:end] for start, end in pairwise([0, *ends])], count))
    return found


def _counted_words(sequences: _Sequences) -> dict[bytes, int]:
    """Return the words of all sequences, the most frequent first."""
    counted: Counter[bytes] = Counter()
    for words, count in sequences:
        for word in words:
            counted[word] += count
    return dict(counted.most_common())


def _runs(sequences: _Sequences, learner: PlainLearner) -> tuple[list[list[int]], list[int]]:
    """Return the runs of words that are one token each, as ids, and their counts (see `bpejit.training.superwords`)."""
    whole = {learner.tokens[ids[0]]: ids[0] for ids in learner.words if len(ids) == 1}
    found: Counter[tuple[int, ...]] = Counter()
    for words, count in sequences:
        run: list[bytes] = []
        for word in [*words, b""]:
            if run and (word not in whole or (run[-1][-1], word[0]) in learner.joins):
                if len(run) > 1:
                    found[tuple(whole[one] for one in run)] += count
                run = []
            if word in whole:
                run.append(word)
    ordered = found.most_common()
    return [list(run) for run, _ in ordered], [count for _, count in ordered]


def _words_of(inputs: Any, options: ExplainOptions) -> dict[bytes, int]:
    """Return the words to learn from, after checking that they come from one place and are not too many."""
    words, text = options["words"], options["text"]
    corpus = options["sources"] if inputs is None else inputs
    n_given = sum(given is not None for given in (corpus, words, text))
    if n_given != 1:
        raise OptionError(f"{n_given} of `inputs=`, `text=` and `words=` are given; expected one: give that one alone")
    if words is not None:
        found = {}
        for word, number in arguments.instance("words", words, Mapping, "give one such as {'hug': 10}").items():
            data = encode_utf8(arguments.string("a word of words", word))
            found[data] = arguments.whole_number(f"words[{shorten(word)}]", number, least=1)
        return found
    if text is not None:
        inputs = iterate_texts([arguments.as_bytes("text", text)])
        options["allow_special"] = True
    superwords = None if options["word_merges"] is None else "super"
    settings = CountSettings.checked(**chosen(SplitSettings, options), superwords=superwords)
    contents, sources = open_inputs([] if inputs is None else inputs, options)
    _check_size(contents.sampled_bytes(total_bytes(sources)) or 0)
    with count_corpus(settings, sources, contents, **checked_work({"engine": "serial", "workers": 1})) as counts:
        _check_size(counts.n_bytes)
        return dict(Counter(counts.table.to_counts()).most_common())


def _check_size(n_bytes: int) -> None:
    if n_bytes > MOST_BYTES:
        raise CorpusError(
            f"the text has {n_bytes:,} bytes; expected at most {MOST_BYTES:,}, since each step is computed in plain Python: "
            "give less text, or `max_bytes=500000` for a sample of files"
        )
