"""What other tools do to text before a tokenizer splits and merges it: Hugging Face's normalizers and pre-tokenizers.

A model of bpejit's own needs none of this. One that was read from `tokenizer.json` may change the text first (`NFC`), put
a space before it, swallow the spaces around its added tokens, or cut it in steps; it then has a `Preparation`.

- `record`: `Preparation` and `TokenFlags`, what a model knows of it
- `json_fields`: reading JSON objects key by key
- `patterns`: the patterns of components
- `normalizers`: text -> text; `unicode_forms`, the tables in which Unicode's versions differ
- `pretokenizers`: text -> pieces
- `alignment`: which characters of the original prepared text stands for; `form_sources`, how normal forms count them
- `added_tokens`: finding added tokens, with their flags
- `pipeline`: all of these, `Preparer`
- `post_processor`: what stands around the ids of a text for a model, `Template`
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bpejit.normalization.alignment import PreparedText
    from bpejit.normalization.pipeline import Preparer
    from bpejit.normalization.post_processor import Piece, Template
    from bpejit.normalization.record import Preparation, TokenFlags

# Resolved on first use, so that a model can be had without regex and NumPy.
_HOMES = {
    "Piece": "post_processor",
    "Preparation": "record",
    "PreparedText": "alignment",
    "Preparer": "pipeline",
    "Template": "post_processor",
    "TokenFlags": "record",
}

__all__ = ["Piece", "Preparation", "PreparedText", "Preparer", "Template", "TokenFlags"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bpejit.normalization' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"bpejit.normalization.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
