"""Encode with bpejit inside tokenizers of `transformers`, in place: `accelerate` and `patch_transformers`.

The methods of the base class that encode are replaced by functions that know for which objects. The objects themselves do not
change: they pickle, and data sets compute their fingerprints, as before. What a caller sees is the same; what bpejit does not
do, the original does, and the report counts it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from bpejit.compat.accelerated_calls import CHANGES, Accelerated, AccelerationReport, Encodings, not_taken
from bpejit.errors import UnsupportedError, shorten
from bpejit.extras import import_extra

FIRST, LAST = (4, 57), (5, 24)
"""The first and the last version of transformers whose methods are known."""

_CHANGING = ("add_tokens", "add_special_tokens", "train", "train_from_iterator")
"""The methods of `tokenizers.Tokenizer` that change its vocabulary."""

_AnyTokenizer = TypeVar("_AnyTokenizer")


class _Local(threading.local):
    """Whether this thread is in a call that is left to the original."""

    original = False


_ACCELERATED: WeakKeyDictionary[Any, Accelerated] = WeakKeyDictionary()

_REPLACED: list[tuple[type, str, Any, Any]] = []
"""Class and name of each attribute that was replaced, the original, and what is in its place."""

_LOCAL = _Local()

_MODE = {"every": False}
"""Whether tokenizers that `accelerate` was not called for are accelerated as well."""


def accelerate(tokenizer: _AnyTokenizer) -> _AnyTokenizer:
    """Encode with bpejit in a tokenizer of transformers, in place, and return it.

    All that callers see stays the same: ids, masks, offsets, padding, truncation, pairs, warnings, errors, and what `encodings`
    is needed for, such as `word_ids`. Pre-tokenized input, overflowing tokens, and what bpejit does not know are left to the
    original, and `acceleration_report` counts them. The object keeps its class; it is pickled, copied and saved without a trace
    of bpejit, so copies are not accelerated, unless `patch_transformers` was called.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerFast
        Tokens may be added, and attributes and components changed, later as well; the next call reads the tokenizer again.

    Raises
    ------
    UnsupportedError
        If the tokenizer is not BPE or cannot be reproduced exactly, its class encodes in a way of its own, or the version of
        transformers is not one of 4.57 to 5.24. The message names the reason.

    Examples
    --------
    >>> tokenizer = bpejit.accelerate(AutoTokenizer.from_pretrained("openai-community/gpt2"))  # doctest: +SKIP
    >>> tokenizer(["Hello, world"], return_offsets_mapping=True)  # doctest: +SKIP
    """
    base = _base()
    if not isinstance(tokenizer, base):
        raise UnsupportedError(
            f"the tokenizer is {shorten(tokenizer)}, a {type(tokenizer).__name__}; expected a fast tokenizer of transformers, "
            "whose `is_fast` is true: load it with AutoTokenizer"
        )
    made = Accelerated(_own_way(type(tokenizer), base))
    _replace(base)
    engine = made.engine(tokenizer.backend_tokenizer)  # type: ignore[attr-defined]
    if isinstance(engine, str):
        raise UnsupportedError(f"the tokenizer cannot be accelerated: {engine}")
    _ACCELERATED[tokenizer] = made
    return tokenizer


def patch_transformers() -> None:
    """Encode with bpejit in all tokenizers of transformers, those that exist and those that are loaded or unpickled later.

    A tokenizer is read when it first encodes; one that `accelerate` refuses stays as it is, and its report has the reason.

    Raises
    ------
    UnsupportedError
        If the version of transformers is not one of 4.57 to 5.24.
    """
    _replace(_base())
    _MODE["every"] = True


def unpatch_transformers() -> None:
    """End the effect of `patch_transformers`, and that of `accelerate` on all tokenizers."""
    _MODE["every"] = False
    _ACCELERATED.clear()
    while _REPLACED:
        owner, name, original, ours = _REPLACED.pop()
        if vars(owner).get(name) is ours:
            setattr(owner, name, original)


def acceleration_report(tokenizer: Any) -> AccelerationReport:
    """Return what bpejit encoded for a tokenizer of transformers, and what was left to the original.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerFast

    Returns
    -------
    AccelerationReport
        All zero, with a reason in `refused`, if the tokenizer is not accelerated.
    """
    found = next((made for known, made in _ACCELERATED.items() if known is tokenizer), None)  # other objects have no hash
    return AccelerationReport(0, 0, 0, {}, "the tokenizer is not accelerated") if found is None else found.report()


def _base() -> type:
    """Return the class of fast tokenizers; raise UnsupportedError if the version is not known."""
    version = import_extra("transformers", "accelerate", extra="", error=UnsupportedError).__version__
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if not FIRST <= numbers <= LAST:
        raise UnsupportedError(
            f"transformers has the version {version}; expected 4.57 to 5.24, whose methods bpejit can replace: install one of "
            "these, or use `Tokenizer.as_hf`"
        )
    name = "transformers.tokenization_utils_" + ("fast" if numbers < (5, 0) else "tokenizers")
    module = import_extra(name, "accelerate", extra="", error=UnsupportedError)
    found: type = getattr(module, "PreTrainedTokenizerFast" if numbers < (5, 0) else "TokenizersBackend")
    return found


def _own_way(kind: type, base: type) -> str | None:
    """Return how a class encodes in a way of its own, or None if its methods call those of the base class."""
    for name in ("_encode_plus", "_batch_encode_plus", "_convert_encoding"):
        for parent in kind.__mro__[: kind.__mro__.index(base)]:
            code = getattr(vars(parent).get(name), "__code__", None)
            if name in vars(parent) and (code is None or name not in code.co_names):
                return f"the class {parent.__name__} has a method `{name}` of its own"
    return None


def _replace(base: type) -> None:
    """Replace the methods that encode, unless that was done."""
    if _REPLACED:
        return
    from tokenizers import Tokenizer
    from transformers.tokenization_utils_base import BatchEncoding

    one: Callable[..., Any] = functools.partial(_take, lists="_batch_encode_plus" not in vars(base))
    for name, take in (("_encode_plus", one), ("_batch_encode_plus", _take_batch), ("tokenize", _take_none)):
        if name in vars(base):
            _set(base, name, _hooked(vars(base)[name], take))
    for name in _CHANGING:
        _set(Tokenizer, name, _noting(vars(Tokenizer)[name]))
    model = vars(Tokenizer)["model"]
    _set(Tokenizer, "model", property(model.__get__, _noting(model.__set__)))
    if not isinstance(vars(BatchEncoding).get("_encodings"), Encodings):  # which stays, since batches may outlive the patch
        setattr(BatchEncoding, "_encodings", Encodings())  # noqa: B010 - an attribute of another package


def _set(owner: type, name: str, value: Any) -> None:
    _REPLACED.append((owner, name, vars(owner)[name], value))
    setattr(owner, name, value)


def _noting(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a `tokenizers.Tokenizer` that notes that its vocabulary changed, in an attribute that is not saved."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        finally:
            vars(self)[CHANGES] = object()

    return call


def _hooked(method: Callable[..., Any], take: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that encodes with bpejit if it can."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        found = _ACCELERATED.get(self)
        if found is None and _MODE["every"]:
            found = _ACCELERATED.setdefault(self, Accelerated(_own_way(type(self), _base())))
        if found is None or _LOCAL.original:
            return method(self, *args, **options)
        made = take(found, self, *args, **options)
        if not isinstance(made, str):
            return made
        found.leave(made)
        _LOCAL.original = True
        try:
            return method(self, *args, **options)
        finally:
            _LOCAL.original = False

    return call


def _take(found: Accelerated, tokenizer: Any, *args: Any, lists: bool, **options: Any) -> Any:
    """Take `_encode_plus`: of one text or pair, or in transformers 5 of lists of these as well."""
    texts, pairs, *others = *args, *[options.pop(name, None) for name in ("text", "text_pair")[len(args) :]]
    if others:
        return "arguments by position"
    if lists and options.get("split_special_tokens") is None:  # in transformers 4, the default is False
        options["split_special_tokens"] = tokenizer.split_special_tokens
    if isinstance(texts, str):
        return found.encode(tokenizer, [texts], [pairs] if pairs else None, options, batched=False)
    if not lists:
        return not_taken((), None, options)
    return found.encode(tokenizer, texts, pairs, options, batched=True)


def _take_batch(found: Accelerated, tokenizer: Any, *args: Any, **options: Any) -> Any:
    """Take `_batch_encode_plus` of transformers 4: of several texts or pairs."""
    texts, *others = *args, *[options.pop("batch_text_or_text_pairs", None) for _ in range(1 - len(args))]
    if others:
        return "arguments by position"
    pairs: Sequence[Any] | None = None
    if isinstance(texts, (list, tuple)) and texts and all(type(pair) is tuple and len(pair) == 2 for pair in texts):
        texts, pairs = map(list, zip(*texts, strict=True))
    return found.encode(tokenizer, texts, pairs, options, batched=True)


def _take_none(*_: Any, **__: Any) -> str:
    """Leave `tokenize` to the original, since it needs `encodings`."""
    return "tokenize"
