"""Splitting text into pre-tokens: split patterns, their compiler, and the splitter.

- `parse`: source -> syntax tree (the dialect)
- `classes`: sets of code points -> equivalence classes
- `automaton`: syntax tree -> ordered NFA -> leftmost-first DFA; safe cuts
- `gaps`: DFA -> one that matches every text
- `transducer`: DFA -> streaming transducer; sequences
- `pattern`: all of these, `compile_pattern`
- `presets`: published patterns by name
- `splitter`: a pattern and special tokens, `Splitter`
- `translate`: a pattern in the dialect of other tools, `to_oniguruma` and `to_fancy_regex`
- `oniguruma`: the way back, `from_oniguruma`
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bpejit.split.oniguruma import from_oniguruma
    from bpejit.split.pattern import SplitPattern, compile_pattern, everything_matches
    from bpejit.split.presets import PRESETS, Pattern
    from bpejit.split.splitter import Splitter, check_chunk
    from bpejit.split.translate import to_fancy_regex, to_oniguruma

# Resolved on first use, so that the presets can be had without regex and NumPy.
_HOMES = {
    "PRESETS": "presets",
    "Pattern": "presets",
    "SplitPattern": "pattern",
    "Splitter": "splitter",
    "check_chunk": "splitter",
    "compile_pattern": "pattern",
    "everything_matches": "pattern",
    "from_oniguruma": "oniguruma",
    "to_fancy_regex": "translate",
    "to_oniguruma": "translate",
}

__all__ = [
    "PRESETS",
    "Pattern",
    "SplitPattern",
    "Splitter",
    "check_chunk",
    "compile_pattern",
    "everything_matches",
    "from_oniguruma",
    "to_fancy_regex",
    "to_oniguruma",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bpejit.split' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"bpejit.split.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
