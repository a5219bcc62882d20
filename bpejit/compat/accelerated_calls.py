"""Calls of tokenizers of `transformers` that bpejit takes: the results, what the original makes of them later, and the counts.

`bpejit.compat.acceleration` decides which calls come here.
"""

from __future__ import annotations

import functools
import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bpejit.compat.model_inputs import LengthPlan, TokenRows, padded_rows
from bpejit.compat.row_encoding import RowEncoder, trims
from bpejit.encoding.codec import Codec
from bpejit.engines import count_cpus
from bpejit.errors import BpejitError
from bpejit.extras import import_extra
from bpejit.formats.huggingface_reading import parse_tokenizer_json
from bpejit.normalization.pipeline_config import Template

_PARTS = ("normalizer", "pre_tokenizer", "post_processor")

_FLAGS = (
    *("dropout", "unk_token", "fuse_unk", "byte_fallback", "ignore_merges"),
    *("continuing_subword_prefix", "end_of_word_suffix"),
)

CHANGES = "bpejit_changes"
"""The attribute of a `tokenizers.Tokenizer` that is another object after each change of its vocabulary. It is not pickled."""

_WARN = "_eventual_warn_about_too_long_sequence"

_OPTIONS = {
    *("add_special_tokens", "padding_strategy", "truncation_strategy", "max_length", "stride", "is_split_into_words"),
    *("pad_to_multiple_of", "padding_side", "return_tensors", "return_token_type_ids", "return_attention_mask"),
    *("return_overflowing_tokens", "return_special_tokens_mask", "return_offsets_mapping", "return_length", "verbose"),
    "split_special_tokens",
}

_KEPT_STATES = 4
"""Tokenizers that change their post-processor for the language of a text change back soon."""

_PROCESS = os.getpid()


class AccelerationReport(NamedTuple):
    """What was encoded by bpejit, and what by the original.

    Parameters
    ----------
    calls, texts : int
        Calls that bpejit took, and the texts in them; a pair is one text.
    encodings : int
        Calls among these whose `encodings` were needed as well, which the original made later.
    original : dict of str to int
        The number of the other calls, by the reason why they were left to the original.
    refused : str, optional
        Why no call is taken.
    """

    calls: int
    texts: int
    encodings: int
    original: dict[str, int]
    refused: str | None

    def __str__(self) -> str:
        lines = [f"bpejit: {self.calls} calls with {self.texts} texts"]
        if self.encodings:
            lines.append(f"the original, for the encodings of these: {self.encodings} calls")
        lines += [f"the original, for {reason}: {count} calls" for reason, count in self.original.items()]
        return "\n".join([*lines, *([f"refused: {self.refused}"] if self.refused else [])])


class _Engine:
    """What encodes for one state of a tokenizer: bpejit, and a copy of the original.

    Parameters
    ----------
    text : str
        The `tokenizer.json` of the state.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        model = parse_tokenizer_json(text.encode())
        self.encoder = RowEncoder(Codec(model), model.template or Template(), trims(json.loads(model.post_processor)))
        self._lock = threading.Lock()

    @functools.cached_property
    def _copy(self) -> Any:
        return import_extra("tokenizers", "accelerate", extra="").Tokenizer.from_str(self._text)

    def encodings(self, batch: list[Any], settings: Settings) -> list[Any]:
        """Return the `tokenizers.Encoding` of each text: from a copy, since another thread may change the original."""
        with self._lock:
            copy = self._copy
            copy.no_truncation() if settings.cut is None else copy.enable_truncation(**settings.cut)
            copy.no_padding() if settings.pad is None else copy.enable_padding(**settings.pad)
            copy.encode_special_tokens = settings.split
            made: list[Any] = copy.encode_batch(batch, add_special_tokens=settings.add)
            return made


class _Pending(NamedTuple):
    """The encodings of a batch, which are made when they are needed."""

    make: Callable[[], list[Any]]


class Encodings:
    """The attribute `_encodings` of a `BatchEncoding`: nobody sees one that is pending, nor is it pickled."""

    def __get__(self, batch: Any, owner: type | None = None) -> Any:
        if batch is None:
            return self
        try:
            found = vars(batch)["_encodings"]
        except KeyError:
            raise AttributeError("_encodings") from None
        if isinstance(found, _Pending):
            found = vars(batch)["_encodings"] = found.make()
        return found

    def __set__(self, batch: Any, value: Any) -> None:
        vars(batch)["_encodings"] = value


class Settings(NamedTuple):
    """What the options of a call mean for a tokenizer.

    Parameters
    ----------
    plan : LengthPlan
    cut, pad : dict, optional
        The arguments of `enable_truncation` and `enable_padding`.
    add, split : bool
    columns : dict of str to bool
        Whether each of the columns is returned that are not always or never returned.
    """

    plan: LengthPlan
    cut: dict[str, Any] | None
    pad: dict[str, Any] | None
    add: bool
    split: bool
    columns: dict[str, bool]

    @classmethod
    def of(cls, tokenizer: Any, options: dict[str, Any]) -> Settings | None:
        """Return the settings of a call with the options of `_encode_plus`, or None if some are of other types."""
        base = _base_module()
        given = options.get
        padding = given("padding_strategy", base.PaddingStrategy.DO_NOT_PAD)
        truncation = given("truncation_strategy", base.TruncationStrategy.DO_NOT_TRUNCATE)
        add = given("add_special_tokens", True)
        split = given("split_special_tokens", False)
        if [*map(type, (padding, truncation, add, split))] != [base.PaddingStrategy, base.TruncationStrategy, bool, bool]:
            return None
        # The original keeps these settings, which are pickled with it; and it raises the errors of wrong ones.
        lengths = {name: given(name) for name in ("max_length", "pad_to_multiple_of", "padding_side")}
        strategies = {"padding_strategy": padding, "truncation_strategy": truncation}
        tokenizer.set_truncation_and_padding(**strategies, **lengths, stride=0)
        backend = tokenizer.backend_tokenizer
        if backend.encode_special_tokens != split:
            backend.encode_special_tokens = split
        limit, multiple, side = lengths.values()
        side = tokenizer.padding_side if side is None else side
        names = [None if one.value.startswith("do_not") else one.value for one in (padding, truncation)]
        plan = LengthPlan(names[0], names[1], limit, multiple, side, tokenizer.truncation_side)
        columns = {"special_tokens_mask": given("return_special_tokens_mask", False)}
        for name in ("token_type_ids", "attention_mask"):
            wanted = given(f"return_{name}")
            columns[name] = name in tokenizer.model_input_names if wanted is None else wanted
        return cls(plan, backend.truncation, backend.padding, add, split, columns)

    def padded(self, rows: TokenRows) -> TokenRows:
        """Return the columns that are returned, padded."""
        rows = rows.chosen(self.columns)
        if self.pad is None:
            return rows
        fills = {"input_ids": self.pad["pad_id"], "token_type_ids": self.pad["pad_type_id"]}
        return padded_rows(rows, self.plan, {**fills, "attention_mask": 0, "special_tokens_mask": 1})


class Accelerated:
    """The engines of a tokenizer, and what they did."""

    def __init__(self, obstacle: str | None) -> None:
        self._obstacle = obstacle
        self._states: dict[Any, _Engine | str] = {}
        self._backend: Any = None
        self._lock = threading.RLock()
        self._calls = self._texts = self._encodings = 0
        self._original: Counter[str] = Counter()

    def report(self) -> AccelerationReport:
        """Return the counts, and why there is no engine, if so."""
        refused = next((state for state in reversed(self._states.values()) if isinstance(state, str)), None)
        engines = any(isinstance(state, _Engine) for state in self._states.values())
        reason = self._obstacle or (None if engines else refused)
        return AccelerationReport(self._calls, self._texts, self._encodings, dict(self._original), reason)

    def leave(self, reason: str) -> None:
        """Count a call that is left to the original."""
        with self._lock:
            self._original[reason] += 1

    def engine(self, backend: Any) -> _Engine | str:
        """Return the engine for the state of a `tokenizers.Tokenizer`, or why there is none."""
        if self._obstacle is not None:
            return self._obstacle
        if type(backend).__module__ != "tokenizers":
            return f"a backend of the type {type(backend).__name__}"
        try:
            model = backend.model
            parts = [part and part.__getstate__() for part in (getattr(backend, name) for name in _PARTS)]
            flags = [getattr(model, name, None) for name in _FLAGS]
            state = (vars(backend).get(CHANGES), type(model).__name__, *parts, *flags)
        except Exception as error:
            return f"a component that cannot be saved ({error})"
        with self._lock:
            if backend is not self._backend:
                self._backend = backend
                self._states.clear()
            if state not in self._states:
                while len(self._states) >= _KEPT_STATES:
                    del self._states[next(iter(self._states))]
                try:
                    self._states[state] = _Engine(backend.to_str())
                except BpejitError as error:
                    self._states[state] = str(error)
            return self._states[state]

    def encode(self, tokenizer: Any, texts: Any, pairs: Any, options: dict[str, Any], *, batched: bool) -> Any:
        """Return the `BatchEncoding` of texts or pairs with the options of `_encode_plus`, or why the original makes it."""
        reason = not_taken(texts, pairs, options)
        if reason is not None:
            return reason
        engine = self.engine(tokenizer.backend_tokenizer)
        if isinstance(engine, str):
            return engine
        settings = Settings.of(tokenizer, options)
        if settings is None:
            return "options of other types"
        encoder = engine.encoder._replace(n_threads=_threads())
        offsets = options.get("return_offsets_mapping", False)
        try:
            rows = encoder.encode(texts, pairs, settings.plan, add=settings.add, offsets=offsets, split=settings.split)
        except BpejitError as error:
            return f"texts or lengths that raise {type(error).__name__}"
        rows = settings.padded(rows)
        lengths = np.diff(rows.starts)
        limit = tokenizer.model_max_length
        if lengths.max() > limit:  # the original looks at each row, and warns once
            verbose = options.get("verbose", True)
            getattr(tokenizer, _WARN)(range(lengths[lengths > limit][0]), settings.plan.max_length, verbose)
        kind = options.get("return_tensors")
        package = getattr(kind, "value", kind)
        data = rows.inputs(package in ("np", "pt"), options.get("return_length", False))
        if package == "pt":  # of lists of arrays, `BatchEncoding` makes tensors in little time
            data = {name: list(column) for name, column in data.items()}
        if not batched and kind is None:
            data = {name: column[0] if isinstance(column[0], list) else column for name, column in data.items()}
        batch = list(texts if pairs is None else zip(texts, pairs, strict=True))

        def make() -> list[Any]:
            with self._lock:
                self._encodings += 1
            return engine.encodings(batch, settings)

        with self._lock:
            self._calls += 1
            self._texts += len(batch)
        n_sequences = 1 if pairs is None else 2
        return _base_module().BatchEncoding(data, _Pending(make), tensor_type=kind, n_sequences=n_sequences)


def _base_module() -> Any:
    return import_extra("transformers.tokenization_utils_base", "accelerate", extra="")


def not_taken(texts: Any, pairs: Any, options: dict[str, Any]) -> str | None:
    """Return why the original has to encode these texts with these options, or None."""
    for name in ("is_split_into_words", "return_overflowing_tokens", "stride", *sorted(options.keys() - _OPTIONS)):
        if options.get(name):
            return f"the option {name}"
    for given in (texts,) if pairs is None else (texts, pairs):
        if type(given) not in (list, tuple) or set(map(type, given)) != {str} or len(given) != len(texts):
            return "no texts, or other objects"
        try:
            for text in given:
                text.isascii() or text.encode("utf-16-le")
        except UnicodeEncodeError:
            return "half of a surrogate pair"
    return None


def _threads() -> int:
    """Return the number of threads: as `tokenizers`, one after a fork, or if the environment forbids several."""
    forbidden = os.environ.get("TOKENIZERS_PARALLELISM", "true").lower() in ("", "off", "false", "f", "no", "n", "0")
    return 1 if forbidden or os.getpid() != _PROCESS else count_cpus()
