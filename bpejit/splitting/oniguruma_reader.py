r"""Translate patterns of Hugging Face tokenizers into the dialect of bpejit.

`from_oniguruma` reads the patterns of `Split` and `Replace`, which Oniguruma runs with Ruby's syntax. It is the inverse of
`bpejit.splitting.dialect_writer`. Parts with the same meaning in both dialects are copied unchanged. The others are rewritten
to mean the same in the `regex` package, or refused with a reason. The differences:

- `{1,3}+` repeats the group in Oniguruma, and `{2}?` makes it optional; a `{` that does not begin a count is a literal.
- `^` and `$` always match at the ends of lines; `\Z` also matches before a final newline, and `\z` only at the end of the text.
- `\w` lacks the joiners, and outside of sets includes `¹²³¼½¾`; `\h` is a hexadecimal digit, and `\xE9` a byte.
- Sets may contain sets, `&&` and `[:alpha:]`; such a set is written as a list of code points.
- Case folding matches some letters with several (`ß` with `ss`): only letters that fold equally in both are accepted.

Oniguruma may have an older version of Unicode than the `regex` package. Then the pattern has to be compiled for that version,
and sets are listed as they are in that version.
"""

from __future__ import annotations

import re

import numpy as np

from bpejit.arrays import Array
from bpejit.errors import PatternError, shorten
from bpejit.splitting.character_classes import CODE_POINTS, members, written_ranges
from bpejit.splitting.dialect_writer import folds_equally, folds_to_one
from bpejit.splitting.regex_syntax import Chars, Cursor

_WORD_IN_SET = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}"
_WORD = _WORD_IN_SET + r"\u00B2\u00B3\u00B9\u00BC-\u00BE"
_HEX = "0-9a-fA-F"

_NAMES = (
    "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp Alphabetic Letter Mark Number "
    "Punctuation Symbol Separator Arabic Armenian Bengali Bopomofo Common Cyrillic Devanagari Ethiopic Georgian Greek "
    "Gujarati Gurmukhi Han Hangul Hebrew Hiragana Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Sinhala Tamil "
    "Telugu Thai Tibetan"
)
"""Properties with the same meaning in both dialects, apart from the version of Unicode."""

_POSIX = {
    "alpha": r"\p{Alphabetic}",
    "digit": r"\p{Nd}",
    "alnum": r"\p{Alphabetic}\p{Nd}",
    "space": r"\s",
    "upper": r"\p{Uppercase}",
    "lower": r"\p{Lowercase}",
    "punct": r"\p{P}\p{S}",
    "word": _WORD_IN_SET,
    "blank": r"\t\p{Zs}",
    "cntrl": r"\p{Cc}",
    "xdigit": _HEX,
    "ascii": r"\x00-\x7F",
}

_QUANTIFIER = re.compile(r"([?*+]|\{(?:(\d+)(?:(,)(\d*))?|,(\d+))\})")
_PROPERTY = re.compile(r"\\([pP])\{(\^?)([\w ]+)\}")
_LONG_POINT = re.compile(r"\\x\{([0-9a-fA-F]{1,6})\}")
_SHORT_POINT = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4}))")
_MOST_REPEATS = 100_000
_SAME_LETTERS = "tnrfvasSdD"
_ELSEWHERE = {
    "w": f"[{_WORD}]",
    "W": f"[^{_WORD}]",
    "h": f"[{_HEX}]",
    "H": f"[^{_HEX}]",
    "e": r"\x1b",
    "A": r"\A",
    "z": r"\z",
    "Z": r"(?=\n?\z)",
    "R": r"(?>\r\n|[\n-\r\x85\u2028\u2029])",
    "b": f"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))",
    "B": f"(?:(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}]))",
}
_IN_SET = {"w": _WORD_IN_SET, "W": None, "h": _HEX, "H": None, "e": _ELSEWHERE["e"]}
"""Letters with another meaning in a set; None for negated classes."""

_CONDITIONS = "AzZbB"
_GROUPS = ("(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>")


def from_oniguruma(source: str, *, unicode: str | None = None) -> str:
    r"""Return a pattern for `compile_pattern` with the matches that `source` has in Hugging Face tokenizers.

    Parameters
    ----------
    source : str
    unicode : str, optional
        The version of Unicode for sets that are written as lists of code points. The default is the version of the `regex`
        package.

    Raises
    ------
    PatternError
        If the pattern is invalid, or cannot be translated exactly.

    Examples
    --------
    >>> print(from_oniguruma(r"\p{N}{1,3}+|\h|\s+\z"))
    (?:\p{N}{1,3})+|[0-9a-fA-F]|\s+\z
    """
    translator = _Translator(source, unicode)
    try:
        translated = translator.choice(ignore_case=False)
    except RecursionError:
        raise translator.refuse("groups nested too deeply") from None
    if translator.at < len(source):
        raise translator.refuse("an unmatched `)`")
    if folds_to_one(translator.letters):
        raise translator.refuse("letters under (?i) that Oniguruma matches with one character (such as `ss` with `ß`)")
    return translated


class _Translator(Cursor):
    def __init__(self, source: str, unicode: str | None) -> None:
        super().__init__(source)
        self.unicode = unicode
        self.letters = ""
        """The case-insensitive letters; those that cannot be adjacent are separated by `|`."""

    def refuse(self, what: str) -> PatternError:
        return PatternError(
            f"the pattern {shorten(self.source, 400)} has {what}, at character {self.at}, which cannot be translated exactly "
            "from the dialect of Hugging Face tokenizers (Oniguruma): rewrite the pattern"
        )

    def choice(self, *, ignore_case: bool) -> str:
        options = [self.sequence(ignore_case=ignore_case)]
        while self.accept("|"):
            self.letters += "|"
            options.append(self.sequence(ignore_case=ignore_case))
        return "|".join(options)

    def sequence(self, *, ignore_case: bool) -> str:
        items = []
        while self.at < len(self.source) and self.source[self.at] not in "|)":
            if self.at == 0 and self.accept("(?i)"):
                return "(?i:" + self.choice(ignore_case=True) + ")"
            repeatable, item = self.item(ignore_case=ignore_case)
            items.append(self.quantified(item, repeatable))
        return "".join(items)

    def quantified(self, item: str, repeatable: bool) -> str:
        found = _QUANTIFIER.match(self.source, self.at)
        if not found:
            return item
        if not repeatable:
            raise self.refuse("a repeated condition")
        sign, low, comma, high, most = found.groups()
        self.at = found.end()
        if sign[0] != "{":
            for suffix in "?+":
                if self.accept(suffix):
                    sign += suffix
                    break
            result = item + sign
        else:
            if any(int(number) > _MOST_REPEATS for number in (low, high, most) if number):
                raise self.refuse("a count that is too large")
            if high and int(low) > int(high):
                raise self.refuse("a count whose first number is larger than the second")
            result = item + (f"{{0,{most}}}" if most else sign)
            if self.accept("?"):
                result = f"(?:{result})?" if not comma and not most else result + "?"
            elif self.accept("+"):
                result = f"(?:{result})+"
        if _QUANTIFIER.match(self.source, self.at):
            raise self.refuse("a quantifier after a quantifier")
        return result

    def item(self, *, ignore_case: bool) -> tuple[bool, str]:
        """Translate one item; return True with it if it may be repeated."""
        character = self.source[self.at]
        if character == "(":
            return self.group(ignore_case=ignore_case)
        if character == "[":
            return True, self.bracketed(ignore_case=ignore_case)
        if character == "\\":
            return self.escape(ignore_case=ignore_case)
        if character in "?*+":
            raise self.refuse("a quantifier with nothing before it")
        if _QUANTIFIER.match(self.source, self.at):
            raise self.refuse("a count with nothing before it")
        self.at += 1
        if character == "^":
            return False, r"(?:\A|(?<=\n)(?!\z))"
        if character == "$":
            return False, r"(?:(?=\n)|\z)"
        if character == ".":
            return True, "."
        self.fold(character, ignore_case=ignore_case)
        return True, "\\" + character if character in "{}]" else character

    def fold(self, character: str, *, ignore_case: bool) -> None:
        if not ignore_case:
            return
        if not folds_equally(character):
            raise self.refuse(f"{shorten(character)} under (?i), whose other forms differ")
        self.letters += character

    def group(self, *, ignore_case: bool) -> tuple[bool, str]:
        opening = next((opening for opening in _GROUPS if self.accept(opening)), None)
        if opening is None:
            if self.accept("(?i:"):
                ignore_case, opening = True, "(?i:"
            elif self.accept("(?-i:"):
                ignore_case, opening = False, "(?-i:"
            elif self.looking_at("(?") or self.looking_at("(*"):
                raise self.refuse(f"the group `{self.source[self.at : self.at + 4]}`")
            else:
                self.at += 1
                opening = "(?:"
        inner = self.choice(ignore_case=ignore_case)
        if not self.accept(")"):
            raise self.refuse("a missing `)`")
        return opening[2] not in "=!<", f"{opening}{inner})"

    def point(self) -> str | None:
        """Translate a numeric escape of a code point; return None if there is none here."""
        found = _LONG_POINT.match(self.source, self.at) or _SHORT_POINT.match(self.source, self.at)
        if not found:
            return None
        short = found.re is _SHORT_POINT
        value = int(next(filter(None, found.groups())), 16)
        if short and found[1] and value > 0x7F:
            raise self.refuse(f"`{found[0]}`, a byte that is not a character")
        if value >= CODE_POINTS or 0xD800 <= value < 0xE000:
            raise self.refuse(f"`{found[0]}`, which is not a character")
        self.at = found.end()
        return found[0] if short else _written(value)

    def property(self) -> str | None:
        """Translate a property; return None if there is none here."""
        found = _PROPERTY.match(self.source, self.at)
        if not found:
            return None
        letter, negated, name = found.groups()
        if name not in _NAMES.split():
            raise self.refuse(f"the property {shorten(name)}, which may have another meaning")
        self.at = found.end()
        return f"\\{letter if not negated else 'pP'[letter == 'p']}{{{name}}}"

    def escape(self, *, ignore_case: bool) -> tuple[bool, str]:
        start = self.at
        text = self.property() or self.point()
        if text is None:
            letter = self.source[self.at + 1 : self.at + 2]
            text = _ELSEWHERE[letter] if letter in _ELSEWHERE else self.same(letter)
            self.at += 2
            if letter in _CONDITIONS:
                return False, text
        if ignore_case and self.source[start + 1].isalnum() and self.source[start + 1] not in "tnrsSdD":
            raise self.refuse(f"`{self.source[start : self.at]}` under (?i)")
        return True, text

    # ---- sets --------------------------------------------------------------------------------------------------------

    def bracketed(self, *, ignore_case: bool) -> str:
        start = self.at
        text = self.simple_set()
        if text is None:
            self.at = start
            if ignore_case:
                raise self.refuse("a set of sets under (?i)")
            inside = self.nested_set()
            return f"[{written_ranges(inside, _written)}]" if inside.any() else r"[^\s\S]"
        source = self.source[start : self.at]
        if ignore_case and not folds_equally(source):
            raise self.refuse(f"the set `{source}` under (?i)")
        if ignore_case:
            self.letters += source[1:-1]
        return text

    def simple_set(self) -> str | None:
        """Translate a set without nested sets; return None for one that must be written as a list of code points."""
        self.at += 1
        out = ["[^" if self.accept("^") else "["]
        if self.looking_at("]"):
            raise self.refuse("a set that begins with `]`")
        while not self.accept("]"):
            if self.looking_at("[") or self.looking_at("&&"):
                return None
            part = self.range()
            if part is None:
                return None
            out.append(part)
        return "".join(out) + "]"

    def range(self) -> str | None:
        """Translate a member of a set, or a range between two; return None for a negated class."""
        part, single = self.member()
        if self.looking_at("-") and not self.looking_at("-]") and single:
            self.at += 1
            end, single = self.member()
            if end is None or not single:
                raise self.refuse("a range without an end")
            part = f"{part}-{end}"
        return part

    def member(self) -> tuple[str | None, bool]:
        """Translate one member of a set; return it, or None for a negated class, and True if it is a single character."""
        if self.at >= len(self.source):
            raise self.refuse("a missing `]`")
        character = self.source[self.at]
        if character == "[":
            raise self.refuse("a range that ends in a set")
        if character != "\\":
            self.at += 1
            # Two of these in a row would be a set operation in the `regex` package.
            doubled = character in "-|~&" and (self.looking_at(character) or self.source[self.at - 2] == character)
            inside = character == "-" and self.source[self.at - 2] not in "[^" and not self.looking_at("]")
            return ("\\" + character if doubled or inside else character), True
        text = self.property()
        if text is not None:
            return text, False
        text = self.point()
        if text is not None:
            return text, True
        letter = self.source[self.at + 1 : self.at + 2]
        text = _IN_SET[letter] if letter in _IN_SET else self.same(letter, " in a set")
        self.at += 2
        return text, letter not in "whWHsSdD"

    def same(self, letter: str, where: str = "") -> str:
        """Return the escape of a letter that means the same in both dialects."""
        if letter and (letter in _SAME_LETTERS or (letter.isascii() and not letter.isalnum())):
            return "\\" + letter
        raise self.refuse(f"`\\{letter}`{where}")

    def nested_set(self) -> Array:
        """Evaluate the set that begins here: bool [code points]."""
        self.at += 1
        negated = self.accept("^")
        result: Array | None = None
        current = np.zeros(CODE_POINTS, bool)
        while not self.accept("]"):
            if self.accept("&&"):
                result = current if result is None else result & current
                current = np.zeros(CODE_POINTS, bool)
            elif self.looking_at("[:"):
                current |= self.posix()
            elif self.looking_at("["):
                current |= self.nested_set()
            elif self.looking_at("\\W") or self.looking_at("\\H"):
                current |= self.contained(f"[^{_WORD_IN_SET if self.source[self.at + 1] == 'W' else _HEX}]")
                self.at += 2
            else:
                part = self.range()
                current |= self.contained(f"[\\{part}]" if part in ("^", "-") else f"[{part}]")
        result = current if result is None else result & current
        return ~result if negated else result

    def posix(self) -> Array:
        found = re.compile(r"\[:(\^?)([a-z]+):\]").match(self.source, self.at)
        if not found or found[2] not in _POSIX:
            raise self.refuse(f"`{self.source[self.at : self.at + 10]}`")
        self.at = found.end()
        return self.contained(f"[{found[1]}{_POSIX[found[2]]}]")

    def contained(self, source: str) -> Array:
        """Evaluate a set of the `regex` package: bool [code points]."""
        return members(Chars(source), self.unicode)


def _written(point: int) -> str:
    if point < 0x80:
        character = chr(point)
        return character if character.isalnum() else f"\\x{point:02X}"
    return f"\\u{point:04X}" if point < 0x10000 else f"\\U{point:08X}"
