"""Train byte-pair-encoding vocabularies, encode and decode text.

Public names are imported on first use, so that `import bpejit` is fast: Numba alone takes half a second to import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bpejit import subword
    from bpejit.combined_jobs import combine
    from bpejit.counts.counts import Counts, merge_counts
    from bpejit.datagen.generation import generate_data
    from bpejit.encoding.cache_budget import get_encoding_cache_budget, set_encoding_cache_budget
    from bpejit.errors import (
        ArgumentTypeError,
        BpejitError,
        BpejitWarning,
        CorpusError,
        CountsError,
        EngineError,
        OptionError,
        OutputError,
        PatternError,
        SpecialTokenError,
        TokenFileError,
        TokenIdError,
        TokenizerFormatError,
        TrainingError,
        UnsupportedError,
    )
    from bpejit.model import Model
    from bpejit.tokenfiles.conversion import convert_tokens
    from bpejit.tokenfiles.opening import open_tokens
    from bpejit.tokenizer import Tokenizer, load
    from bpejit.training.corpus_tokens import tokens_by_size
    from bpejit.training.count_corpus import count
    from bpejit.training.count_plan import plan_count
    from bpejit.training.extending import extend
    from bpejit.training.train import train, train_bpe, train_from_counts, train_from_iterator
    from bpejit.verification.verify import verify
    from bpejit.warmup import warmup

__version__ = "0.1.0"

_MODULES = {
    "ArgumentTypeError": "bpejit.errors",
    "BpejitError": "bpejit.errors",
    "BpejitWarning": "bpejit.errors",
    "CorpusError": "bpejit.errors",
    "Counts": "bpejit.counts.counts",
    "CountsError": "bpejit.errors",
    "EngineError": "bpejit.errors",
    "Model": "bpejit.model",
    "OptionError": "bpejit.errors",
    "OutputError": "bpejit.errors",
    "PatternError": "bpejit.errors",
    "SpecialTokenError": "bpejit.errors",
    "TokenFileError": "bpejit.errors",
    "TokenIdError": "bpejit.errors",
    "Tokenizer": "bpejit.tokenizer",
    "TokenizerFormatError": "bpejit.errors",
    "TrainingError": "bpejit.errors",
    "UnsupportedError": "bpejit.errors",
    "combine": "bpejit.combined_jobs",
    "count": "bpejit.training.count_corpus",
    "extend": "bpejit.training.extending",
    "generate_data": "bpejit.datagen.generation",
    "convert_tokens": "bpejit.tokenfiles.conversion",
    "get_encoding_cache_budget": "bpejit.encoding.cache_budget",
    "load": "bpejit.tokenizer",
    "merge_counts": "bpejit.counts.counts",
    "open_tokens": "bpejit.tokenfiles.opening",
    "plan_count": "bpejit.training.count_plan",
    "set_encoding_cache_budget": "bpejit.encoding.cache_budget",
    "tokens_by_size": "bpejit.training.corpus_tokens",
    "train": "bpejit.training.train",
    "train_bpe": "bpejit.training.train",
    "train_from_counts": "bpejit.training.train",
    "train_from_iterator": "bpejit.training.train",
    "verify": "bpejit.verification.verify",
    "warmup": "bpejit.warmup",
}

__all__ = [
    "ArgumentTypeError",
    "BpejitError",
    "BpejitWarning",
    "CorpusError",
    "Counts",
    "CountsError",
    "EngineError",
    "Model",
    "OptionError",
    "OutputError",
    "PatternError",
    "SpecialTokenError",
    "TokenFileError",
    "TokenIdError",
    "Tokenizer",
    "TokenizerFormatError",
    "TrainingError",
    "UnsupportedError",
    "combine",
    "convert_tokens",
    "count",
    "extend",
    "generate_data",
    "get_encoding_cache_budget",
    "load",
    "merge_counts",
    "open_tokens",
    "plan_count",
    "set_encoding_cache_budget",
    "subword",
    "tokens_by_size",
    "train",
    "train_bpe",
    "train_from_counts",
    "train_from_iterator",
    "verify",
    "warmup",
]


_HINTS = dict.fromkeys(
    ("get_encoding", "encoding_for_model", "from_pretrained", "AutoTokenizer"),
    ": bpejit.load(PATH) reads a tokenizer, such as cl100k_base.tiktoken or hf:openai-community/gpt2",
)
"""What to use instead of names of other libraries."""


def __getattr__(name: str) -> Any:
    if name == "subword":
        return importlib.import_module("bpejit.subword")
    if name not in _MODULES:
        hint = _HINTS.get(name, "")
        if not hint and not name.startswith("_"):
            from difflib import get_close_matches

            near = get_close_matches(name, __all__, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
        raise AttributeError(f"module 'bpejit' has no attribute {name!r}{hint}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
