"""Hypothesis strategies that all tests share: text and bytes with edge cases of splitting and merging."""

# ruff: noqa: RUF001 (look-alike characters are intended)

from __future__ import annotations

from hypothesis import strategies as st

PIECES = [
    *("'s", "'S", "'ſ", "'t", "'re", "'RE", "'Ve", "'ll", "'lL", "'d", "'m", "''", "'", "’s", "s", "l", "K", "\u212a", "ſſ"),
    *("hello", "World", "HTML", "iPhone", "aB", "ab", "x"),
    *(" ", "  ", "   ", "\n", "\n\n", "\r\n", "\r", "\t", " \n", "\n ", " \t", "\v", "\f", "\0", "\x1c", "\x1f"),
    *("\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u2029", "\u200b", "\u3000", "\ufeff", "\u200d"),
    *("1", "12", "123", "1234", "٣", "४५", "Ⅷ", "½", "²", "𝟘", "〇"),
    *("e\u0301", "\u0301", "\u0903", "\u0e33", "\u20dd", "\u0345"),
    *("ǅ", "ǈx", "ß", "İ", "ı", "Σς", "ʰ", "ª", "中文", "漢", "ひらがな", "カタカナ", "한국어", "ไทย", "עברית", "العربية", "Ж"),
    *("😀", "👩‍👩‍👧", "🇩🇪", "€", "™", "\u0378", "\ue000", "\uffff", "\U000e0001", "\U0010ffff", "\U0001f9ff\ufe0f"),
    *("!", "...", "?!", "/", "//", "_", "-", "{}", "<", "<|", "<|endoftext|>", "<|endoftext", "|>", "$1.50", "a/b", "http://"),
]

INVALID = [
    *(
        b"\x80",
        b"\xbf",
        b"\x80\x80\x80\x80\x80",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x80\x80",
        b"\xe0\x9f\xbf",
        b"\xf0\x80\x80\x80",
    ),
    *(b"\xf0\x8f\xbf\xbf", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80"),
    *(
        b"\xfe",
        b"\xff",
        b"\xc3",
        b"\xe2",
        b"\xe2\x82",
        b"\xf0",
        b"\xf0\x9f",
        b"\xf0\x9f\x98",
        b"\xe2\x28",
        b"\xf0\x9f\x41",
        b"\xc3\xc3",
    ),
]


def awkward_text(max_pieces: int = 30) -> st.SearchStrategy[str]:
    """Generate text of characters with special classes, cases, widths or neighbors, without surrogates."""
    piece = st.one_of(st.sampled_from(PIECES), st.text(max_size=3))
    return st.lists(piece, max_size=max_pieces).map("".join)


def awkward_bytes(max_pieces: int = 30) -> st.SearchStrategy[bytes]:
    """Generate such text as bytes, mixed with all kinds of invalid UTF-8."""
    piece = st.one_of(
        st.sampled_from(PIECES).map(str.encode),
        st.sampled_from(PIECES).map(str.encode),
        st.sampled_from(INVALID),
        st.text(max_size=2).map(str.encode),
        st.binary(max_size=3),
    )
    return st.lists(piece, max_size=max_pieces).map(b"".join)


SPECIAL_TOKENS = [
    *(
        b"<|endoftext|>",
        b"<|end",
        b"<|endoftext|><|endoftext|>",
        b"<",
        b"|>",
        b" ",
        b"  ",
        b"\n\n",
        b"'s",
        b"hello",
        b"a",
        b"ab",
    ),
    *("中".encode(), "é".encode(), "😀".encode(), b"x\xe4", b"\x80", b"\x9f", b"\xff\xff", b"\xb8\xad", b"1"),
]


def special_tokens(max_size: int = 4) -> st.SearchStrategy[list[bytes]]:
    """Generate special tokens that overlap, are prefixes of one another, and start or end within characters."""
    return st.lists(st.sampled_from(SPECIAL_TOKENS), max_size=max_size, unique=True)


PATTERN_ALPHABET = "aAbsſĸ\u0345 1\n'é中."
"""Characters that the sets of `split_patterns` distinguish."""

_SETS = [
    *("a", "b", "s", " ", "1", "'", "\\n", "\\.", "é", "\\u4e2d", "\\x61", "."),
    *("\\s", "\\S", "\\d", "\\w", "\\W", "\\p{L}", "\\P{L}", "\\p{Lu}", "\\p{Ll}", "\\p{M}", "\\p{N}"),
    *("[ab]", "[^a]", "[^\\s\\p{L}\\p{N}]", "[\\n ]", "[a-z]", "[^\\r\\n\\p{L}\\p{N}]", "[\\p{Lu}\\p{Lo}']"),
]
_QUANTIFIERS = ["?", "*", "+", "{2}", "{1,2}", "{2,}", "{,2}", "??", "*?", "+?", "{1,3}?", "?+", "*+", "++", "{1,2}+"]


def split_patterns() -> st.SearchStrategy[str]:
    """Generate split patterns of the dialect over PATTERN_ALPHABET; for some there is no automaton."""
    one = st.sampled_from(_SETS)
    condition = st.one_of(
        st.just("$"), st.just("\\Z"), st.builds("(?{}{})".format, st.sampled_from("=!"), st.sampled_from(_SETS))
    )

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        group = st.builds("({}{})".format, st.sampled_from(["?:", "?:", "?i:", ""]), inner)
        return st.one_of(
            st.builds("{}{}".format, st.one_of(one, group), st.sampled_from(_QUANTIFIERS)),
            st.lists(st.one_of(inner, inner, condition), min_size=2, max_size=3).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda options: f"(?:{'|'.join(options)})"),
            group,
        )

    part = st.recursive(one, extend, max_leaves=6)
    # A part may match the empty string, in which case the pattern runs through the `regex` package.
    part = st.one_of(part, st.builds("{}{}".format, part, one), st.builds("{}{}".format, one, part))
    alternatives = st.lists(part, min_size=1, max_size=4).map("|".join)
    # With `|[\s\S]` there are no gaps: such patterns have a transducer more often.
    return st.builds(
        "{}{}{}".format, st.sampled_from(["", "", "(?i)"]), alternatives, st.sampled_from(["", "|[\\s\\S]", "|[\\s\\S]"])
    )
