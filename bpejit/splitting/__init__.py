"""Splitting text into pre-tokens: split patterns, their compiler, and the splitter.

- `regex_syntax`: source -> syntax tree (the dialect)
- `character_classes`: sets of code points -> equivalence classes
- `automaton`: syntax tree -> ordered NFA -> leftmost-first DFA; safe cuts
- `gaps`: DFA -> one that matches every text
- `transducer`: DFA -> streaming transducer; sequences
- `pattern`: all of these, `compile_pattern`
- `presets`: published patterns by name
- `splitter`: a pattern and special tokens, `Splitter`
- `dialects`: a pattern in the dialect of other tools, `to_oniguruma` and `to_fancy_regex`
- `oniguruma`: the way back, `from_oniguruma`
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bpejit.splitting.dialects import to_fancy_regex, to_oniguruma
    from bpejit.splitting.oniguruma import from_oniguruma
    from bpejit.splitting.pattern import SplitPattern, compile_pattern, everything_matches
    from bpejit.splitting.presets import PRESETS, Pattern
    from bpejit.splitting.splitter import Splitter, check_chunk

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
    "to_fancy_regex": "dialects",
    "to_oniguruma": "dialects",
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
        raise AttributeError(f"module 'bpejit.splitting' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"bpejit.splitting.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
