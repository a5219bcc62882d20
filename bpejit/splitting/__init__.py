"""Split text into pre-tokens: split patterns, their compiler, and the splitter.

- `regex_syntax`: parse a pattern to a syntax tree (the dialect)
- `character_classes`: evaluate sets of code points and partition them into classes
- `dfa`: syntax tree to ordered NFA to leftmost-first DFA, extended to match every text
- `transducer`: DFA to streaming transducer; sequences of patterns
- `local_rules`: boundaries that five adjacent characters determine
- `pattern_compiler`: all of these, and the arrays of the result
- `presets`: patterns with names
- `pattern`: a compiled pattern as data, and for the `regex` package (within `text_limits`); `register_preset`
- `pattern_cache`: `compile_pattern`, which stores tables
- `splitter`: a pattern and special tokens, `Splitter`; `automaton`, its arrays for the kernels
- `dialect_writer`: translate to the dialects of other tools, `to_oniguruma` and `to_fancy_regex`
- `oniguruma_reader`: the inverse, `from_oniguruma`
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bpejit.splitting.character_classes import (
        members as members,
        set_boundaries as set_boundaries,
        written_ranges as written_ranges,
    )
    from bpejit.splitting.dialect_writer import to_fancy_regex as to_fancy_regex, to_oniguruma as to_oniguruma
    from bpejit.splitting.oniguruma_reader import from_oniguruma as from_oniguruma
    from bpejit.splitting.pattern import (
        SplitPattern as SplitPattern,
        register_preset as register_preset,
        unregister_preset as unregister_preset,
    )
    from bpejit.splitting.pattern_cache import compile_pattern as compile_pattern
    from bpejit.splitting.pattern_compiler import avoids as avoids, covers_all_text as covers_all_text
    from bpejit.splitting.presets import PRESETS as PRESETS, Pattern as Pattern
    from bpejit.splitting.regex_syntax import Chars as Chars
    from bpejit.splitting.splitter import Splitter as Splitter
    from bpejit.splitting.unicode_versions import read_ranges as read_ranges

# Names are resolved on first use, so that importing the presets loads neither regex nor NumPy.
_MODULE_OF = {
    name: module
    for module, names in {
        "character_classes": ("members", "set_boundaries", "written_ranges"),
        "dialect_writer": ("to_fancy_regex", "to_oniguruma"),
        "oniguruma_reader": ("from_oniguruma",),
        "pattern": ("SplitPattern", "register_preset", "unregister_preset"),
        "pattern_cache": ("compile_pattern",),
        "pattern_compiler": ("avoids", "covers_all_text"),
        "presets": ("PRESETS", "Pattern"),
        "regex_syntax": ("Chars",),
        "splitter": ("Splitter",),
        "unicode_versions": ("read_ranges",),
    }.items()
    for name in names
}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'bpejit.splitting' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"bpejit.splitting.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
