"""Split several texts in one pass over their concatenation, with a separator character after each.

Splitting each text by itself takes a call, a search for special tokens and a cursor for each, four times as long as splitting
50 bytes within a longer text. Every transducer has a class that no character has, and that ends a text
(`transducer.with_separator`). In the arrays of a `SeparatedAutomaton` the separator has this class; all other characters have
the same classes as before. So the separators are pre-tokens, and the texts between them are split like separate texts, by local
rules as well. Texts that contain the separator cannot be split in this way.
"""

from __future__ import annotations

from typing import NamedTuple

from bpejit.arrays import Array
from bpejit.jit.simd import CONTEXT_SIZE
from bpejit.kernels.common.array_addresses import addresses_of
from bpejit.kernels.splitting.automaton_arrays import SplitAutomaton
from bpejit.splitting.class_pages import class_pages
from bpejit.splitting.compiled_pattern import SplitTables
from bpejit.splitting.rule_groups import group_rules

SEPARATOR = b"\x1f"
"""The character after each text: ASCII, since the rules for ASCII text are the fastest, and rare."""

_CODE = SEPARATOR[0]


class SeparatedAutomaton(NamedTuple):
    """The arrays that split texts with separators, and their addresses, as in `Splitter`."""

    automaton: SplitAutomaton
    addresses: Array


def separate(automaton: SplitAutomaton, tables: SplitTables) -> SeparatedAutomaton | None:
    """Return the arrays of a pattern in which SEPARATOR has the class of separators; None if the pattern has no such class."""
    if not tables.separator:
        return None
    class_of = automaton.class_of.copy()
    byte_class = automaton.byte_class.copy()
    pair_classes = automaton.pair_classes.copy()
    local_rules = automaton.local_rules.copy()
    class_of[_CODE] = byte_class[_CODE] = tables.separator
    pair_classes[[_CODE, 128 + _CODE]] = pair_classes[256:]
    if local_rules.size:
        over_characters, over_classes = local_rules.reshape(2, -1, CONTEXT_SIZE, 128)
        over_characters[:, :, _CODE] = over_classes[:, :, tables.separator]
    separated = automaton._replace(
        class_of=class_of,
        byte_class=byte_class,
        pair_classes=pair_classes,
        local_rules=local_rules,
        group_rules=group_rules(local_rules),
        class_pages=class_pages(class_of, local_rules),
    )
    return SeparatedAutomaton(separated, addresses_of(separated))
