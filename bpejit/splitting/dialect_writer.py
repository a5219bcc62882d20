r"""Translate split patterns into the dialects of other tools.

`to_oniguruma` translates for Hugging Face's `Split` pre-tokenizer, which runs Oniguruma. A pattern with the same meaning there
is not changed at all, since some readers of `tokenizer.json` identify patterns by their text. The changes:

- `{1,3}+` repeats the group in Oniguruma, as `(?:..{1,3})+`; a possessive quantifier becomes the greedy one, which is proven to
  be equal. `{2}?` makes the group optional there, and `{,3}` becomes `{0,3}`.
- `$` and `\Z` also match before a final newline there; `\z` matches at the end of the text only.
- `\xE9` is a byte there; code points are written `\x{E9}`.
- `(?i)` is written as a group. Case folding there matches some letters with several (`ß` with `ss`), and lacks some pairs of
  the `regex` package (`İ` and `i`). If this may make a difference, all letters are listed.
- `\w` has additional characters there (`²`), and only some names of `\p{..}` are supported; the other properties are written as
  lists of code points. So are set differences such as `[a-z--[aeiou]]`, which Oniguruma lacks.

`to_fancy_regex` translates for tiktoken, which runs Rust's fancy-regex. It supports possessive quantifiers and `$`, so fewer
changes are needed; properties and differences are written as above. tiktoken drops text that the pattern does not match, while
bpejit and `Split` make it a piece. If there may be such text, the pattern gets one more alternative.

Unicode tables depend on the version: a letter of a script that was added later is a letter for the newer tool only. Only sets
that are written as lists of code points keep the version of the pattern.
"""

from __future__ import annotations

import itertools
import re

from bpejit.errors import PatternError, shorten
from bpejit.splitting.character_classes import ESCAPE, members, partition, written_ranges
from bpejit.splitting.dfa import leaves_gaps, make_dfa
from bpejit.splitting.pattern_cache import compile_pattern, translated
from bpejit.splitting.regex_syntax import Chars, End, Mark, OutsideDialectError, Repeat, parse_with_marks, sets_of

# Names with the same meaning in both dialects; other properties are written as lists of code points.
_CATEGORIES = "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp"
_SCRIPTS = (
    "Arabic Armenian Bengali Cyrillic Devanagari Georgian Greek Han Hangul Hebrew Hiragana Katakana Khmer Latin Tamil Thai"
)
_PROPERTIES = frozenset(f"{_CATEGORIES} {_SCRIPTS}".split())

_WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}"

_CONTROL = {r"\f": 0x0C, r"\v": 0x0B, r"\a": 0x07}


def to_oniguruma(source: str, *, unicode: str | None = None) -> str:
    r"""Return an equivalent pattern in the dialect of Hugging Face tokenizers' `Split`.

    Parameters
    ----------
    source : str
        A regular expression in the syntax of the `regex` package.
    unicode : str, optional
        The version of Unicode for sets that are written as lists of code points. The default is the version of the `regex`
        package.

    Raises
    ------
    PatternError
        If the pattern does not compile, or is outside the dialect of split patterns, so that equivalence cannot be proven.

    Examples
    --------
    >>> print(to_oniguruma(r"\p{N}{1,3}+|\s+$|."))
    \p{N}{1,3}|\s+\z|.
    """
    return translated(source, unicode, "oniguruma", lambda: _rewrite(source, unicode, rust=False))


def to_fancy_regex(source: str, *, unicode: str | None = None) -> str:
    r"""Return an equivalent pattern in the dialect of tiktoken; parameters and errors are the same as for `to_oniguruma`.

    Examples
    --------
    >>> print(to_fancy_regex(r"\p{N}{1,3}+|\s+$|."))
    \p{N}{1,3}+|\s+$|.|(?:(?!\p{N}{1,3}+|\s+$|.)[\s\S])++
    """
    return translated(source, unicode, "fancy-regex", lambda: _rewrite(source, unicode, rust=True))


def _rewrite(source: str, unicode: str | None, *, rust: bool) -> str:
    """Return a pattern in the dialect of Oniguruma or of Rust's fancy-regex; the latter matches all text."""
    compile_pattern(source, unicode=unicode)
    try:
        tree, marks = parse_with_marks(source)
        # Building the DFA proves that possessive quantifiers equal greedy ones, and that no match is empty.
        dfa = make_dfa(tree, partition(sets_of(tree), unicode))
    except OutsideDialectError as error:
        raise PatternError(
            f"the split pattern {shorten(source, 400)} cannot be translated because {error}; expected a pattern that bpejit "
            f"runs as an automaton: {error.hint or 'simplify it, or use a preset'}"
        ) from None
    list_letters = _ignoring_case_differs(marks)
    out: list[str] = []
    at = 0
    for mark in marks:
        if mark.start < at:
            continue
        out += source[at : mark.start], _translate(mark, source, list_letters, rust, unicode)
        at = mark.end
    out.append(source[at:])
    rewritten = "".join(out) + (")" if source.startswith("(?i)") else "")
    return rf"{rewritten}|(?:(?!{rewritten})[\s\S])++" if rust and leaves_gaps(dfa) else rewritten


def _translate(mark: Mark, source: str, list_letters: bool, rust: bool, unicode: str | None) -> str:
    text = source[mark.start : mark.end]
    match mark.element:
        case End():
            return text if rust and text == "$" else r"\z"
        case Repeat():
            return text.replace("{,", "{0,") if rust else _quantifier(mark.element, text)
        case Chars() as chars if chars.ignore_case:
            return _set(_ranges(chars, unicode)) if list_letters else text
        case Chars():
            if mark.element.operations and "--" in text:
                return _set(_ranges(mark.element, unicode))
            return ESCAPE.sub(lambda escape: _escape(escape[0], unicode, within_set=text.startswith("[")), text)
        case "(?i)" | "(?i:":
            return "(?:" if list_letters else "(?i:"
        case "(?-i:":
            return "(?:" if list_letters else text
        case _:
            return text


def _quantifier(repeat: Repeat, text: str) -> str:
    if text[0] != "{":
        return text[0] + ("?" if repeat.mode == "lazy" else "")
    if repeat.low == repeat.high:
        return f"{{{repeat.low}}}"
    high = "" if repeat.high is None else repeat.high
    return f"{{{repeat.low},{high}}}" + ("?" if repeat.mode == "lazy" else "")


def _escape(text: str, unicode: str | None, *, within_set: bool) -> str:
    """Translate one escape that does not ignore case."""
    letter = text[1]
    if letter in "pP":
        name = text[2:].strip("{}")
        if name in _PROPERTIES:
            return f"\\{letter}{{{name}}}"
    elif letter in "xuU":
        digits = text[2:]
        return _point(int(digits, 16))
    elif text in _CONTROL:
        return f"\\x{{{_CONTROL[text]:02X}}}"
    elif letter == "w":
        return _WORD if within_set else f"[{_WORD}]"
    elif letter != "W":
        return text
    elif not within_set:
        return f"[^{_WORD}]"
    inner = _ranges(Chars(text), unicode)
    return inner if within_set else _set(inner)


def _set(ranges: str) -> str:
    # Oniguruma rejects an empty set.
    return f"[{ranges}]" if ranges else r"[^\x{0}-\x{10FFFF}]"


def _ranges(chars: Chars, unicode: str | None) -> str:
    """Return the ranges of a set, without surrogates, which UTF-8 cannot encode."""
    inside = members(chars, unicode)
    inside[0xD800:0xE000] = False
    return written_ranges(inside, _point)


def _point(point: int) -> str:
    character = chr(point)
    return character if point < 0x80 and character.isalnum() else f"\\x{{{point:X}}}"


def _ignoring_case_differs(marks: list[Mark]) -> bool:
    """Return True unless `(?i:..)` is known to mean the same in Oniguruma and in the `regex` package for this pattern."""
    letters = ""
    for mark in marks:
        if mark.element == "|":
            letters += "|"
        elif isinstance(mark.element, Chars) and mark.element.ignore_case:
            text = mark.element.source
            is_class = text.startswith("\\") and text[1] not in "rnt" and text[1].isalnum()
            if is_class or not folds_equally(text):
                return True
            letters += text
    return folds_to_one(letters)


def folds_equally(source: str) -> bool:
    """Return True if the case of a character, or of a set of characters, is known to be ignored equally in both dialects."""
    inner = source[1:-1] if source.startswith("[") else source
    # Single ASCII letters except `i` fold equally in both. Ranges and escapes in a set are not analyzed.
    return inner.isascii() and "i" not in inner.lower() and (source == inner or not re.search(r"[\\^-]", inner))


def folds_to_one(letters: str) -> bool:
    """Return True if letters contain the case folding of a single character to several, such as `ss`."""
    if len(letters) < 2:
        return False
    # All of these characters are in three blocks.
    points = itertools.chain(range(0x80, 0x600), range(0x1E00, 0x2000), range(0xFB00, 0xFB20))
    folded = {chr(point).casefold() for point in points}
    return any(len(several) > 1 and several in letters.lower() for several in folded)
