"""Splitting text into pre-tokens: split patterns, their compiler, and the splitter.

- `parse`: source -> syntax tree (the dialect)
- `classes`: sets of code points -> equivalence classes
- `automaton`: syntax tree -> ordered NFA -> leftmost-first DFA; safe cuts
- `transducer`: DFA -> streaming transducer
- `pattern`: all of these, `compile_pattern`
- `presets`: published patterns by name
- `splitter`: a pattern and special tokens, `Splitter`
- `translate`: a pattern in the dialect of other tools, `to_oniguruma`
"""

from bpejit.split.pattern import SplitPattern, compile_pattern
from bpejit.split.presets import PRESETS
from bpejit.split.splitter import Splitter, check_chunk
from bpejit.split.translate import to_oniguruma

__all__ = ["PRESETS", "SplitPattern", "Splitter", "check_chunk", "compile_pattern", "to_oniguruma"]
