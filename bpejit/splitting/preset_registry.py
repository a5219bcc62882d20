"""Names for split patterns beside the published ones."""

from __future__ import annotations

from bpejit import arguments
from bpejit.errors import PatternError, shorten
from bpejit.splitting.pattern_stages import check_pattern
from bpejit.splitting.presets import PRESET_TABLE, PRESETS, PUBLISHED, Pattern, Preset, is_name, pattern_source


def register_preset(name: str, pattern: Pattern, *, used_by: str = "", source: str = "") -> None:
    r"""Give a split pattern a name, which can then be used wherever a pattern is expected.

    The name is known to the process that registers it. Tokenizers that are trained, saved or sent to other processes carry the
    pattern itself, so worker processes, and programs that load the tokenizer, do not need the name.

    Parameters
    ----------
    name : str
        ASCII letters, digits, `_` and `-`, such as "my-pattern"; it may end with a version, as in "my-pattern.2".
    pattern : str or tuple of str
        A regular expression in the syntax of the `regex` package, several that are applied one after the other, or the name of
        another preset.
    used_by : str, optional
        Models or tools that use the pattern.
    source : str, optional
        Where the pattern is published.

    Raises
    ------
    PatternError
        If the name is malformed or belongs to another pattern, or the pattern does not compile.

    Examples
    --------
    >>> register_preset("words", r"\w+|\s+|[^\w\s]+")  # doctest: +SKIP
    >>> tokenizer = bpejit.train("corpus.txt", vocab_size=10_000, pattern="words")  # doctest: +SKIP
    """
    name = arguments.string("name", name)
    if not is_name(name):
        raise PatternError(
            f"{shorten(name)} cannot be the name of a split pattern; expected ASCII letters, digits, `_` and `-`, such as "
            "'my-pattern': choose another name"
        )
    stages = pattern_source(arguments.pattern("pattern", pattern))
    known = PRESETS.get(name, stages)
    if known != stages:
        raise PatternError(
            f"there is already a split pattern named {shorten(name)}, {shorten(str(known), 400)}, which differs from "
            f"{shorten(str(stages), 400)}: choose another name"
        )
    check_pattern(stages)
    PRESET_TABLE.setdefault(name, Preset(stages, arguments.string("used_by", used_by), arguments.string("source", source)))


def unregister_preset(name: str) -> None:
    """Remove a name that `register_preset` has added.

    Raises
    ------
    PatternError
        If there is no such name, or it belongs to a published pattern.
    """
    if name in PUBLISHED or name not in PRESET_TABLE:
        registered = ", ".join(shorten(other) for other in PRESET_TABLE if other not in PUBLISHED) or "none are registered"
        raise PatternError(
            f"{shorten(name)} is not a registered split pattern; expected a name from `register_preset` ({registered}): "
            "choose one of these"
        )
    del PRESET_TABLE[name]
