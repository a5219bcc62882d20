"""Train byte-pair-encoding vocabularies, encode and decode text.

Public names are imported on first use, so that `import bpejit` is fast: Numba alone takes half a second to import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bpejit.errors import (
    ArgumentTypeError as ArgumentTypeError,
    BpejitError as BpejitError,
    BpejitWarning as BpejitWarning,
    CorpusError as CorpusError,
    CountsError as CountsError,
    EngineError as EngineError,
    OptionError as OptionError,
    OutputError as OutputError,
    PatternError as PatternError,
    SpecialTokenError as SpecialTokenError,
    TokenFileError as TokenFileError,
    TokenIdError as TokenIdError,
    TokenizerFormatError as TokenizerFormatError,
    TrainingError as TrainingError,
    UnsupportedError as UnsupportedError,
)

if TYPE_CHECKING:
    from bpejit import subword as subword
    from bpejit.combined_jobs import combine as combine
    from bpejit.compat.acceleration import (
        accelerate as accelerate,
        acceleration_report as acceleration_report,
        patch_transformers as patch_transformers,
        unpatch_transformers as unpatch_transformers,
    )
    from bpejit.counting.count_corpus import count as count, plan_count as plan_count
    from bpejit.counting.counts import Counts as Counts, merge_counts as merge_counts
    from bpejit.inspection.comparison import (
        Comparison as Comparison,
        Report as Report,
        compare as compare,
        report as report,
    )
    from bpejit.inspection.corpus_stats import Stats as Stats, stats as stats
    from bpejit.inspection.token_rows import split as split
    from bpejit.model import Model as Model
    from bpejit.process_memory import (
        get_encoding_cache_budget as get_encoding_cache_budget,
        set_encoding_cache_budget as set_encoding_cache_budget,
    )
    from bpejit.t2t.datagen.problems import generate_data as generate_data
    from bpejit.tokenfiles.conversion import convert_tokens as convert_tokens
    from bpejit.tokenfiles.opening import open_tokens as open_tokens
    from bpejit.tokenizer import Tokenizer as Tokenizer, load as load
    from bpejit.training.corpus_tokens import tokens_by_size as tokens_by_size
    from bpejit.training.extending import extend as extend
    from bpejit.training.huggingface_trainer import train_new_from_iterator as train_new_from_iterator
    from bpejit.training.tracing import explain as explain
    from bpejit.training.train import (
        find_chunk_boundaries as find_chunk_boundaries,
        train as train,
        train_bpe as train_bpe,
        train_from_counts as train_from_counts,
        train_from_iterator as train_from_iterator,
    )
    from bpejit.verification.verify import verify as verify
    from bpejit.warm_kernels import warmup as warmup

__version__ = "0.1.0"

_MODULES = {
    name: module
    for module, names in {
        "bpejit.combined_jobs": ("combine",),
        "bpejit.compat.acceleration": ("accelerate", "acceleration_report", "patch_transformers", "unpatch_transformers"),
        "bpejit.counting.counts": ("Counts", "merge_counts"),
        "bpejit.t2t.datagen.problems": ("generate_data",),
        "bpejit.process_memory": ("get_encoding_cache_budget", "set_encoding_cache_budget"),
        "bpejit.inspection.comparison": ("Comparison", "Report", "compare", "report"),
        "bpejit.inspection.corpus_stats": ("Stats", "stats"),
        "bpejit.inspection.token_rows": ("split",),
        "bpejit.model": ("Model",),
        "bpejit.tokenfiles.conversion": ("convert_tokens",),
        "bpejit.tokenfiles.opening": ("open_tokens",),
        "bpejit.tokenizer": ("Tokenizer", "load"),
        "bpejit.training.corpus_tokens": ("tokens_by_size",),
        "bpejit.counting.count_corpus": ("count", "plan_count"),
        "bpejit.training.extending": ("extend",),
        "bpejit.training.huggingface_trainer": ("train_new_from_iterator",),
        "bpejit.training.tracing": ("explain",),
        "bpejit.training.train": ("find_chunk_boundaries", "train", "train_bpe", "train_from_counts", "train_from_iterator"),
        "bpejit.verification.verify": ("verify",),
        "bpejit.warm_kernels": ("warmup",),
    }.items()
    for name in names
}

_ERRORS = [name for name in globals() if name.endswith(("Error", "Warning"))]

__all__ = sorted([*_MODULES, *_ERRORS, "subword"])


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
