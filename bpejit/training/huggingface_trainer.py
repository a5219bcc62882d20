"""Train tokenizers of Hugging Face with bpejit: `BpeTrainer`, and `train_new_from_iterator` of `transformers`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from bpejit.counting.count_corpus import count
from bpejit.encoding.decoding_rules import file_texts
from bpejit.errors import TokenizerFormatError, UnsupportedError, shorten
from bpejit.extras import import_extra
from bpejit.formats.missing_parts import TOOLS_UNICODE
from bpejit.normalization.byte_characters import encode_byte_characters
from bpejit.normalization.pretokenizers import PreTokenizer, make_pretokenizer
from bpejit.training.train import train_model

_FLAGS = ("dropout", "unk_token", "fuse_unk", "byte_fallback", "ignore_merges")

_SHORTEST_LIMIT = 3
"""Smaller limits of the length of a token have the same effect in `tokenizers`."""


class _Learned(NamedTuple):
    """The first tokens without the special ones, in order, and the merges."""

    alphabet: list[str]
    merges: list[tuple[str, str]]


class BpeTrainer:
    """A trainer with the arguments of `tokenizers.trainers.BpeTrainer`, and with its results.

    `tokenizers` accepts no trainers of other packages, so the call is `trainer.train_from_iterator(tokenizer, texts)`.

    Parameters
    ----------
    vocab_size : int
        Number of tokens: special tokens, alphabet, and merges.
    min_frequency : int
        Pairs that occur less often are not merged.
    show_progress : bool
    special_tokens : list of str or AddedToken
        They have the first ids.
    limit_alphabet : int, optional
        The largest number of characters; not for bytes.
    initial_alphabet : list of str
        Characters that are in the vocabulary in any case.
    continuing_subword_prefix, end_of_word_suffix : str, optional
        Refused, unless empty: with a suffix, the result of `tokenizers` differs from run to run.
    max_token_length : int, optional

    Raises
    ------
    UnsupportedError
        If an option cannot have the effect that it has in `tokenizers`.

    Examples
    --------
    >>> tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())  # doctest: +SKIP
    >>> tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)  # doctest: +SKIP
    >>> BpeTrainer(vocab_size=32_000).train_from_iterator(tokenizer, texts)  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        vocab_size: int = 30000,
        min_frequency: int = 0,
        show_progress: bool = True,
        special_tokens: Sequence[Any] = (),
        limit_alphabet: int | None = None,
        initial_alphabet: Sequence[str] = (),
        continuing_subword_prefix: str | None = None,
        end_of_word_suffix: str | None = None,
        max_token_length: int | None = None,
    ) -> None:
        if continuing_subword_prefix or end_of_word_suffix:
            raise UnsupportedError(
                "continuing_subword_prefix or end_of_word_suffix is given; expected neither, since bpejit has no such prefix, "
                "and the ids of suffixed symbols are random in `tokenizers`: train with `bpejit.train` and its `word_end=`"
            )
        self.vocab_size = vocab_size
        self.min_frequency = min_frequency
        self.show_progress = show_progress
        self.special_tokens = list(special_tokens)
        self.limit_alphabet = limit_alphabet
        self.initial_alphabet = [text[0] for text in initial_alphabet if text]
        self.max_token_length = max_token_length

    def train_from_iterator(self, tokenizer: Any, iterator: Iterable[Any], length: int | None = None) -> None:  # noqa: ARG002
        """Train the model of a `tokenizers.Tokenizer`, in place.

        Parameters
        ----------
        tokenizer : tokenizers.Tokenizer
            Its normalizer and pre-tokenizer prepare the texts; it has no added tokens yet.
        iterator : iterable of str, or of lists of str
        length : int, optional
            Ignored.

        Raises
        ------
        UnsupportedError
            If a component cannot be reproduced.
        TrainingError, CorpusError
        """
        content = json.loads(tokenizer.to_str())
        if content["model"]["type"] != "BPE" or content["added_tokens"]:
            raise UnsupportedError(
                "the tokenizer is not BPE, or has added tokens already, which its own training would find in the texts; "
                "expected one of BPE without them: begin with a new one"
            )
        try:
            steps = make_pretokenizer(content["pre_tokenizer"], mapped=False, unicode=TOOLS_UNICODE)
        except TokenizerFormatError as error:
            raise UnsupportedError(f"the tokenizer cannot be trained by bpejit: {error}") from error
        texts = _prepared(iterator, tokenizer.normalizer, prefixed=steps.level and steps.prefix != "")
        specials = list(dict.fromkeys(getattr(token, "content", token) for token in self.special_tokens))
        first = next(texts, None)
        if first is None:
            learned = _Learned(sorted({*self.initial_alphabet}), [])
        elif steps.level and steps.patterns is not None:
            learned = self._learn_bytes(chain([first], texts), steps, specials)
        else:
            learned = self._learn_characters(chain([first], texts), steps, specials, content["pre_tokenizer"])
        made = {left + right for left, right in learned.merges}
        taken = next((text for text in specials if text in made or text in learned.alphabet), None)
        if taken is not None:
            raise UnsupportedError(
                f"the special token {shorten(taken)} is also learned from the texts, which changes the order of merges in "
                "`tokenizers`; expected another text: rename the token"
            )
        order = dict.fromkeys([*specials, *learned.alphabet, *(left + right for left, right in learned.merges)])
        vocab = {text: number for number, text in enumerate(order)}
        flags = {name: content["model"][name] for name in _FLAGS}
        tokenizer.model = _tokenizers().models.BPE(vocab=vocab, merges=learned.merges, **flags)
        tokenizer.add_special_tokens(self.special_tokens)

    def _learn_bytes(self, texts: Iterator[str], steps: PreTokenizer, specials: list[str]) -> _Learned:
        counts = count(
            texts,
            pattern=steps.patterns or (),
            special_tokens=[],
            unicode=TOOLS_UNICODE,
            progress=self.show_progress,
        )
        found = encode_byte_characters(np.unique(counts.any_order.pool).tobytes())
        alphabet = sorted({*found, *self.initial_alphabet})
        if self.limit_alphabet is not None and self.limit_alphabet < len(alphabet):
            raise UnsupportedError(
                f"limit_alphabet is {self.limit_alphabet}, and the alphabet has {len(alphabet)} bytes; expected as many: leave "
                "the limit out"
            )
        n_merges = self.vocab_size - len({*specials, *alphabet})
        if n_merges <= 0:
            return _Learned(alphabet, [])
        model = train_model(counts, vocab_size=256 + n_merges, max_token_bytes=self._longest, **self._limits)
        pairs = [(encode_byte_characters(left), encode_byte_characters(right)) for left, right in model.merges]
        return _Learned(alphabet, pairs)

    def _learn_characters(self, texts: Iterator[str], steps: PreTokenizer, specials: list[str], written: Any) -> _Learned:
        marks = (
            isinstance(written, dict) and written["type"] == "Metaspace" and written["replacement"] == "▁" and written["split"]
        )
        if steps.level or steps.removes_space or not (marks or (steps.patterns and not steps.prefix and not steps.space)):
            raise UnsupportedError(
                f"the pre-tokenizer is {shorten(json.dumps(written))}; expected ByteLevel, Metaspace, or steps that split text "
                "and keep all of it: train with `tokenizers`"
            )
        options: dict[str, Any] = {"symbols": "characters", "limit_alphabet": self.limit_alphabet}
        if marks:
            options |= {"metaspace": True, "prefix_space": bool(steps.prefix)}
        else:
            options["pattern"] = steps.patterns
        options |= {"special_tokens": specials, "special_tokens_first": True, "unicode": TOOLS_UNICODE}
        options |= {"vocab_size": self.vocab_size, "max_token_characters": self._longest, **self._limits}
        model = train_model(texts, **options)
        shown = file_texts(model)
        by_token = {token: shown[number] for number, token in model.tokens.items()}
        merges = [(by_token[left], by_token[right]) for left, right in model.merges]
        first = len(model.tokens) - len({left + right for left, right in merges})
        alphabet = [shown[number] for number in sorted(model.tokens)[:first]]
        missing = set(self.initial_alphabet).difference(alphabet)
        if missing:
            raise UnsupportedError(
                f"initial_alphabet has {shorten(sorted(missing))}, which the texts do not have; expected characters of the "
                "texts: leave the others out"
            )
        return _Learned(alphabet, merges)

    @property
    def _longest(self) -> int | None:
        return None if self.max_token_length is None else max(self.max_token_length, _SHORTEST_LIMIT) - 1

    @property
    def _limits(self) -> dict[str, Any]:
        return {"min_frequency": max(self.min_frequency, 1), "tie_break": "hf", "progress": self.show_progress}


def train_new_from_iterator(tokenizer: Any, text_iterator: Iterable[Any], vocab_size: int, **options: Any) -> Any:
    """Return what the method of this name of a tokenizer of transformers returns, with merges that bpejit learns.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerFast
        The new tokenizer has its class, components and special tokens.
    text_iterator : iterable of str, or of lists of str
    vocab_size : int
    **options
        `length`, `new_special_tokens`, `special_tokens_map`, and arguments of `BpeTrainer`.

    Raises
    ------
    UnsupportedError
        If the tokenizer is not BPE, or as for `BpeTrainer`.
    TrainingError, CorpusError

    Examples
    --------
    >>> old = AutoTokenizer.from_pretrained("openai-community/gpt2")  # doctest: +SKIP
    >>> new = bpejit.train_new_from_iterator(old, texts, 32_000)  # doctest: +SKIP
    """
    method = getattr(type(tokenizer), "train_new_from_iterator", None)
    names = {"TokenizerFast": _Factory, "MODEL_TO_TRAINER_MAPPING": {"BPE": BpeTrainer}}
    if not isinstance(method, FunctionType) or not names.keys() <= method.__globals__.keys():
        raise UnsupportedError(
            f"the tokenizer is {shorten(tokenizer)}, a {type(tokenizer).__name__}; expected a fast tokenizer of transformers: "
            "load it with AutoTokenizer"
        )
    kind = type(tokenizer.backend_tokenizer.model).__name__
    if kind != "BPE":
        raise UnsupportedError(f"the tokenizer is {kind}; expected BPE: call its own method")
    # The method of transformers itself, where the training is another one.
    same = FunctionType(method.__code__, {**method.__globals__, **names}, None, method.__defaults__, method.__closure__)
    return same(tokenizer, text_iterator, vocab_size, **options)


class _Factory:
    """In place of the class `tokenizers.Tokenizer`: makes objects of it which bpejit trains."""

    @staticmethod
    def from_str(text: str) -> Any:
        made = _tokenizers().Tokenizer.from_str(text)

        def train(iterator: Iterable[Any], *, trainer: BpeTrainer, length: int | None = None) -> None:
            del made.train_from_iterator
            trainer.train_from_iterator(made, iterator, length)

        made.train_from_iterator = train  # an attribute of this object
        return made


def _prepared(iterator: Iterable[Any], normalizer: Any, *, prefixed: bool) -> Iterator[str]:
    """Yield texts that are not empty, one by one, as they are before they are split."""
    for item in iterator:
        for text in [item] if isinstance(item, str) else item:
            changed = text if normalizer is None else normalizer.normalize_str(text)
            if changed:
                yield f" {changed}" if prefixed and not changed.startswith(" ") else changed


def _tokenizers() -> Any:
    return import_extra("tokenizers", "training a tokenizer of Hugging Face", extra="", error=UnsupportedError)
