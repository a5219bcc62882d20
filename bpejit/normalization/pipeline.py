"""A model's preparation as data, and what applies it: bytes of text to pieces of prepared text.

The order is that of Hugging Face tokenizers: added tokens that are not normalized are found in the raw text; each part
between them is normalized; the other added tokens are found in what that gives; the rest is pre-tokenized. Bytes that are
not UTF-8, which those tools cannot be given, go through all this as characters that no step changes, by
`surrogateescape`.

Where nothing would be changed, as in English text under NFC, text goes through the automaton as for any other model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from bpejit.arrays import Array, padded_text
from bpejit.errors import TokenizerFormatError, shorten
from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG
from bpejit.kernels.encoding.records import SplitAutomaton
from bpejit.normalization.added_tokens import AddedToken, TokenFinder, is_word, overlap
from bpejit.normalization.alignment import AlignedText, PreparedText, byte_ranges, one_to_one, widths
from bpejit.normalization.byte_characters import text_to_bytes
from bpejit.normalization.normalizers import make_normalizer
from bpejit.normalization.pretokenizers import PREFIX_SPACE, make_pretokenizer
from bpejit.normalization.record import Preparation, TokenFlags
from bpejit.normalization.unicode_forms import STARTS
from bpejit.splitting import Pattern, Splitter
from bpejit.splitting.special_finder import SpecialFinder

_LAST_CUT_WINDOW = 1 << 10


class Preparer:
    """Applies a preparation; immutable, so that threads may share one.

    Parameters
    ----------
    preparation : Preparation
    added_tokens : mapping of str to TokenFlags
    unicode : str, optional
        The version of Unicode of its patterns (see `bpejit.splitting.compile_pattern`).

    Raises
    ------
    TokenizerFormatError
        If a component is broken or not supported, or the added tokens cannot be told apart.

    Attributes
    ----------
    special_tokens : tuple of bytes
        The tokens that keep a cut away, for the size of the windows in which one is looked for.
    direct : Splitter, optional
        Splits text that the preparation leaves as it is; None if no such text can be told from other text.
    """

    def __init__(self, preparation: Preparation, added_tokens: Mapping[str, TokenFlags], *, unicode: str | None = None) -> None:
        self._normalizer = make_normalizer(json.loads(preparation.normalizer), unicode=unicode)
        self._pretokenizer = make_pretokenizer(
            json.loads(preparation.pre_tokenizer), mapped=self._normalizer.maps_bytes, unicode=unicode
        )
        first = {text: flags for text, flags in added_tokens.items() if not flags.normalized}
        later = {text: flags for text, flags in added_tokens.items() if flags.normalized}
        self._raw = TokenFinder((AddedToken(text, _bytes(text), flags) for text, flags in first.items()), unicode=unicode)
        contents = {text: self._normalizer(text) for text in later}
        _check_contents(contents)
        self._normalized = TokenFinder(
            (AddedToken(contents[text], _bytes(text), flags) for text, flags in later.items()), unicode=unicode
        )
        patterns = self._pretokenizer.patterns
        self._splitter = None if patterns is None else Splitter(patterns, unicode=unicode)
        self.direct: Splitter | None = None
        plain = not any(flags.single_word or flags.lstrip or flags.rstrip for flags in added_tokens.values())
        if (
            self._splitter is not None
            and self._splitter.automaton is not None
            and not self._pretokenizer.prefix
            and plain
            and self._normalizer.forms is not None
            and all(contents[text] == text for text in later)
            and not overlap(first, later)
        ):
            self.direct = Splitter(self._splitter.pattern, [_bytes(text) for text in added_tokens])
        self.special_tokens = tuple(_bytes(text) for text in (added_tokens if self.direct else first))
        self._finder = self.direct.finder if self.direct is not None else SpecialFinder(self.special_tokens)
        self._longest = self._finder.longest
        self._margin = max(4, self._longest)
        self._cut_behind = _find_cut_tokens(first, unicode)

    @property
    def is_plain(self) -> bool:
        """Whether a model needs no preparation at all for what this one does."""
        return self.direct is not None and not self._normalizer.changes

    @property
    def pattern(self) -> Pattern | None:
        """The split pattern that the pre-tokenizer comes to, if there is one."""
        found = self._splitter.pattern if self._splitter is not None else None
        return (found.name or found.source) if found is not None else None

    @property
    def automaton(self) -> SplitAutomaton | None:
        """The automaton for text that stays as it is."""
        return self.direct.automaton if self.direct is not None else None

    @property
    def addresses(self) -> Array:
        """Where the automaton's arrays are, if there is one."""
        assert self.direct is not None
        return self.direct.addresses

    # ---- preparing ---------------------------------------------------------------------------------------------------

    def leaves(self, data: bytes) -> bool:
        """Whether text certainly stays as it is, so that `direct` splits it."""
        if self.direct is None:
            return False
        return data.isascii() or self._normalizer.leaves(data.decode("utf-8", "surrogateescape"))

    def prepare(self, data: bytes, cut: int | None = None) -> tuple[Array, Array]:
        """Prepare and split a text.

        Parameters
        ----------
        data : bytes
        cut : int, optional
            Where to stop, at a place that `find_cut` gave; what is behind it only finishes the last piece.

        Returns
        -------
        text : uint8[:]
            The prepared text, padded. Added tokens stand in it as they are written.
        ends : uint32[:]
            Where each span of it ends, with the special flag if the span is an added token.
        """
        ahead = 0 if cut is None or self.direct is None else len(data) - cut
        if cut is not None and self.direct is None:
            data = data[:cut]
        out: list[bytes] = []
        ends: list[Array] = []
        done = 0
        for raw in self._raw.divide(data.decode("utf-8", "surrogateescape")):
            for part in [raw] if isinstance(raw, bytes) else self._normalized.divide(self._normalizer(raw)):
                if isinstance(part, bytes):
                    out.append(part)
                    done += len(part)
                    ends.append(np.array([done | SPECIAL_FLAG], dtype=np.uint32))
                    continue
                piece, piece_ends = self._pieces(part)
                out.append(piece)
                ends.append(piece_ends + np.uint32(done))
                done += len(piece)
        every = np.concatenate([*ends, np.zeros(0, dtype=np.uint32)]).astype(np.uint32)
        # What is ahead of the cut is as it was, so in what was prepared it is as long as before.
        every = every[: np.searchsorted(every & np.uint32(POSITION_MASK), done - ahead, side="right")]
        return padded_text(b"".join(out))[0], every

    def _pieces(self, text: str) -> tuple[bytes, Array]:
        """Return a part without added tokens as bytes, and where its pieces end."""
        if self._splitter is not None:
            if self._pretokenizer.prefix:
                text = PREFIX_SPACE.apply(text)
            data = text.encode("utf-8", "surrogateescape")
            return data, self._splitter.split(*padded_text(data))
        # Written with GPT-2's characters, one for each byte.
        pieces = self._pretokenizer.pieces(text)
        return text_to_bytes("".join(pieces)), np.cumsum([len(piece) for piece in pieces], dtype=np.uint32)

    def align(self, data: bytes, areas: Array | None = None) -> PreparedText:
        """Prepare and split a text as `prepare` does, and say where each byte comes from. It takes many times as long.

        Parameters
        ----------
        data : bytes
        areas : int64 [areas, 2], optional
            Begins and ends, in characters of the decoded text, of the only stretches in which added tokens are found. A
            character that normalizing made out of several stretches is in none.
        """
        text = data.decode("utf-8", "surrogateescape")
        original = AlignedText(text, one_to_one(len(text)))
        out: list[bytes] = []
        ends: list[Array] = []
        first: list[Array] = []
        last: list[Array] = []
        found: list[str] = []

        def put_token(token: bytes, part: AlignedText) -> None:
            covered = part.sources.of
            out.append(token)
            ends.append(np.array([len(token) | SPECIAL_FLAG], dtype=np.uint32))
            first.append(np.full(len(token), covered[0], dtype=np.int64))
            last.append(np.full(len(token), covered[-1], dtype=np.int64))
            found.append(part.text)

        def put_text(part: AlignedText) -> None:
            piece, piece_ends, sources = self._aligned_pieces(part)
            out.append(piece)
            ends.append(piece_ends)
            first.append(sources)
            last.append(sources)

        for start, end, token in self._raw.spans(text, areas):
            part = original.part(start, end)
            if token is not None:
                put_token(token, part)
                continue
            for change in self._normalizer.changes:
                part = part.changed(change)
            for begin, stop, later in self._normalized.spans(part.text, None if areas is None else part.within(areas)):
                inner = part.part(begin, stop)
                if later is not None:
                    put_token(later, inner)
                else:
                    put_text(inner)
        prepared, size = padded_text(b"".join(out))
        places = np.cumsum([0, *map(len, out)]).astype(np.uint32)
        every = [numbers + place for numbers, place in zip(ends, places, strict=False)]
        none = np.zeros(0, dtype=np.int64)
        starts, stops = byte_ranges(prepared[:size], np.concatenate([none, *first]), np.concatenate([none, *last]), text)
        return PreparedText(prepared, np.concatenate([none.astype(np.uint32), *every]), starts, stops, found)

    def _aligned_pieces(self, part: AlignedText) -> tuple[bytes, Array, Array]:
        """As `_pieces`, with the character of the original that each byte stands for."""
        if self._splitter is not None:
            if self._pretokenizer.prefix:
                part = part.changed(PREFIX_SPACE)
            data = part.text.encode("utf-8", "surrogateescape")
            return data, self._splitter.split(*padded_text(data)), np.repeat(part.sources.of, widths(part.text))
        pieces = self._pretokenizer.aligned_pieces(part)
        sources = np.concatenate([np.zeros(0, dtype=np.int64), *(piece.sources.of for piece in pieces)])
        ends = np.cumsum([len(piece.text) for piece in pieces], dtype=np.uint32)
        return text_to_bytes("".join(piece.text for piece in pieces)), ends, sources

    # ---- cutting -----------------------------------------------------------------------------------------------------

    def find_cut(self, text: Array, lo: int, hi: int, stop: int) -> int:
        """Return the first place in `lo:hi + 1` where the text may be cut, or -1 (see `Splitter.find_cut`)."""
        if self.direct is None:
            return self._find_cut_behind_token(text, lo, hi, stop)
        while lo <= hi:
            cut = self.direct.find_cut(text, lo, hi, stop)
            if cut < 0 or self._unchanged_around(text, cut, stop):
                return cut
            lo = cut + 1
        return -1

    def _unchanged_around(self, text: Array, cut: int, stop: int) -> bool:
        """Whether the text on both sides of a place is normalized, so far that no added token that arises reaches over it."""
        if cut + self._margin > stop:
            return False
        after = text[cut : cut + self._margin].tobytes()
        before = text[max(cut - self._margin - 4, 0) : cut].tobytes()
        if before.isascii() and after.isascii():
            return True
        while before and before[0] & 0xC0 == 0x80:
            before = before[1:]
        try:
            window, following = before.decode() + after.decode(), after.decode()
        except UnicodeDecodeError:
            return False
        return STARTS.match(following) is not None and self._normalizer.leaves(window)

    def _find_cut_behind_token(self, text: Array, lo: int, hi: int, stop: int) -> int:
        if not self._longest:
            return -1
        base = max(0, lo - 2 * self._longest)
        data = text[base : min(stop, hi + self._longest)].tobytes()
        for begin, end in self._finder.lonely_spans(data):
            # It is certain to be found, unless more text makes another that overlaps it.
            if lo <= base + end <= hi and base + end + self._longest <= stop and data[begin:end] in self._cut_behind:
                return base + end
        return -1

    def find_last_cut(self, text: Array, first: int, filled: int) -> int:
        """Return the last place of `text[first:filled]` where it may be cut, as far as more text cannot change it, or `first`.

        Parameters
        ----------
        text : uint8[:]
        first : int
            Where a text begins, or an earlier cut.
        filled : int
        """
        hi = filled - self._margin
        window = _LAST_CUT_WINDOW
        while hi > first:
            lo = max(first + 1, hi - window)
            cut = self.find_cut(text[first:], lo - first, hi - first, filled - first)
            if cut >= 0:
                return first + cut
            hi = lo - 1
            window *= 4
        return first

    def margin_behind(self, cut: int, filled: int) -> int:
        """Return where the text ends that must be known to prepare what is before a cut."""
        return min(cut + self._margin, filled)


def _check_contents(contents: Mapping[str, str]) -> None:
    """Refuse added tokens that normalizing leaves nothing of, or does not leave apart."""
    seen: dict[str, str] = {}
    for text, content in contents.items():
        if not content:
            raise TokenizerFormatError(
                f"normalizing leaves nothing of the added token {shorten(text)}; expected text that can be found: "
                "remove the token"
            )
        if content in seen:
            raise TokenizerFormatError(
                f"the added tokens {shorten(seen[content])} and {shorten(text)} are the same when normalized; expected "
                "different ones: remove one"
            )
        seen[content] = text


def _find_cut_tokens(first: Mapping[str, TokenFlags], unicode: str | None) -> frozenset[bytes]:
    """Return the tokens behind which a text begins anew."""
    words = any(flags.single_word for flags in first.values())
    return frozenset(
        _bytes(text)
        for text, flags in first.items()
        if not (flags.single_word or flags.rstrip or (words and is_word(text[-1], unicode)))
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
