"""Running the pipeline of a model: from the bytes of a text to spans of normalized text.

The order is that of Hugging Face tokenizers: added tokens that are not normalized are found in the raw text; the text between
them is normalized; the other added tokens are found in the result; the rest is pre-tokenized. Invalid UTF-8, which those
tools do not accept, becomes characters that no step changes, by `surrogateescape`.

Text that the pipeline would not change, such as English text under NFC, goes through the automaton as for any other model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import cached_property

import numpy as np

from bpejit.arrays import Array, padded_text, starts_of
from bpejit.errors import TokenizerFormatError, shorten
from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG
from bpejit.kernels.splitting.automaton_arrays import SplitAutomaton
from bpejit.normalization.added_tokens import TokenFinder, is_word, overlap
from bpejit.normalization.alignment import AlignedText, PreTokenizedText, byte_ranges, concatenated, one_to_one
from bpejit.normalization.byte_characters import decode_byte_characters
from bpejit.normalization.normalizers import WHITE_SPACE, make_normalizer
from bpejit.normalization.pipeline_config import PipelineConfig, TokenFlags
from bpejit.normalization.pretokenizers import PREFIX_SPACE, WHOLE, make_pretokenizer
from bpejit.normalization.symbol_marks import SymbolMarks
from bpejit.normalization.symbols import Symbols
from bpejit.normalization.unicode_forms import starts_anew
from bpejit.splitting import Pattern, Splitter
from bpejit.splitting.presets import stages_of
from bpejit.splitting.special_token_finder import SpecialTokenFinder, StringFinder
from bpejit.splitting.text_limits import REGEX_TIMEOUT, text_limits
from bpejit.utf8 import code_points, widths

_LAST_CUT_WINDOW = 1 << 10

_IS_SPACE = np.zeros(0x110000, np.bool_)
_IS_SPACE[[*map(ord, WHITE_SPACE)]] = True


class TextPipeline:
    """Runs a pipeline. It is immutable and can be shared by threads.

    Parameters
    ----------
    config : PipelineConfig
    added_tokens : mapping of str to TokenFlags
    symbols : Symbols, optional
        What pre-tokens begin as, if that is not a token for each byte.
    known : callable, optional
        Returns a mask of the bytes of a text that belong to symbols, bool [bytes], if others are removed. It takes the bytes
        and the ends of spans, None if these do not matter.
    pattern : str or tuple of str, optional
        The pattern by which text is divided that the pre-tokenizer leaves whole (see `bpejit.splitting.joining`).
    unicode : str, optional
        The version of Unicode of its patterns (see `bpejit.splitting.compile_pattern`).
    regex_timeout : float, optional
        Seconds of processor time for one MB of text in the `regex` package (see `text_limits`); None for no limit.

    Raises
    ------
    TokenizerFormatError
        If a component is malformed or not supported, or added tokens are equal after normalization.

    Attributes
    ----------
    special_tokens : tuple of bytes
        The tokens that prevent cuts; their lengths determine the windows that are searched for a cut.
    direct : Splitter, optional
        Splits text that the pipeline does not change; None if such text cannot be recognized.
    changes_added : bool
        True if normalization changes added tokens, which then count as their normalized text.
    cuts_within : bool
        True if `find_cut` returns other positions than those after added tokens; the text after these matters.
    later : TextPipeline
        What runs on the text after a cut.
    """

    def __init__(
        self,
        config: PipelineConfig,
        added_tokens: Mapping[str, TokenFlags],
        *,
        symbols: Symbols | None = None,
        known: Callable[[bytes, Array | None], Array] | None = None,
        pattern: Pattern | None = None,
        unicode: str | None = None,
        regex_timeout: float | None = REGEX_TIMEOUT,
    ) -> None:
        self._regex_timeout = regex_timeout
        self._normalizer = make_normalizer(json.loads(config.normalizer), unicode=unicode)
        self._pretokenizer = make_pretokenizer(
            json.loads(config.pre_tokenizer),
            mapped=self._normalizer.maps_bytes,
            space=self._normalizer.space,
            unicode=unicode,
        )
        self._space = symbols.space if symbols is not None else ""
        self._known = known
        self._marks = SymbolMarks(symbols, known, level=self._pretokenizer.level)
        self._prepends = self._normalizer.prepends
        self._spacing = self._normalizer.spacing
        if self._spacing is not None:
            added_tokens = {text: flags for text, flags in added_tokens.items() if flags.normalized}
        self._prefix = self._pretokenizer.prefix
        first = {text: flags for text, flags in added_tokens.items() if not flags.normalized}
        later = {text: flags for text, flags in added_tokens.items() if flags.normalized}
        encoded = {text: text.encode("utf-8", "surrogateescape") for text in added_tokens}
        self._raw = TokenFinder({text: (encoded[text], flags) for text, flags in first.items()}, unicode=unicode)
        with text_limits(sum(map(len, later)), regex_timeout):
            change = self._normalizer if self._spacing is None else lambda text: text
            contents = {text: change(AlignedText(text)).text for text in later}
        _check_contents(contents)
        normalized = {contents[text]: (encoded[text], flags) for text, flags in later.items()}
        self._normalized = TokenFinder(normalized, unicode=unicode)
        # Patterns of `Metaspace` divide text in which a space is a space.
        patterns = self._pretokenizer.patterns if self._pretokenizer.space in ("", self._space) else None
        self._joins = patterns == (WHOLE,) and pattern is not None
        patterns = stages_of(pattern) if self._joins and pattern is not None else patterns
        self._splitter = None if patterns is None else Splitter(patterns, unicode=unicode)
        # Patterns that have no automaton together are applied one after the other, if each of them has one.
        self._stages = [] if self._splitter is None else [self._splitter]
        if self._splitter is not None and self._splitter.automaton is None and patterns is not None:
            stages = [Splitter(one, unicode=unicode) for one in patterns]
            self._stages = stages if all(one.automaton is not None for one in stages) else self._stages
        self.direct: Splitter | None = None
        changed = {text: content for text, content in contents.items() if content != text}
        self.changes_added = len(changed) > 0
        # Texts that certainly have none of them lack what is left of each without spaces.
        self._changed = StringFinder([content.strip(f" {self._space}").encode() or b" " for content in changed.values()])
        self._plain = not any(flags.single_word or flags.lstrip or flags.rstrip for flags in added_tokens.values())
        # Tokens that are found after normalization are found in the text itself, if that changes neither.
        self._strips = not later or not (changed or self._normalizer.space or self._prepends)
        unchanged = [token for text, token in encoded.items() if text not in changed]
        if self._splitter is not None and self._leaves_text(symbols) and not overlap(first, later):
            self.direct = Splitter(self._splitter.pattern, unchanged)
        # Text may be cut where it is divided, if no space is inserted before what follows.
        joins = changed or self._prefix or self._prepends or self._spacing is not None
        self._cuts = self.direct is not None and self._plain and not joins
        self._added = StringFinder(unchanged)
        self._spaced = any(" " in text or (self._space and self._space in text) for text in added_tokens)
        self.special_tokens = tuple(encoded.values() if self._cuts else map(encoded.__getitem__, first))
        self._finder = self.direct.finder if self.direct is not None and self._cuts else SpecialTokenFinder(self.special_tokens)
        self._margin = max(4, self._finder.longest)
        # After a cut a text would count as the first, and get a prefix.
        words = any(flags.single_word for flags in first.values())
        self._cut_after = frozenset(
            encoded[text]
            for text, flags in first.items()
            if self._prefix != "first" and not (flags.single_word or flags.rstrip or (words and is_word(text[-1], unicode)))
        )
        # Other values are set by `local`; the second is whether what is run begins a text.
        self.cuts_within, self._begins = self._cuts, True
        self.later = self

    @cached_property
    def local(self) -> TextPipeline:
        """The pipeline for a text that may be cut wherever that has no effect; `later` is the one for what follows a cut.

        They are the pipeline itself unless it inserts spaces, or its added tokens strip white space or are single words. Then
        text is cut apart from added tokens, and the second one inserts no space before it.
        """
        if self.direct is None or self._cuts or self.changes_added or self._spacing is not None:
            return self
        first = copy(self)
        first.cuts_within, first._finder, first.special_tokens = True, self.direct.finder, self.direct.special_tokens
        first._margin = max(4, first._finder.longest)
        later = copy(first)
        later._begins = False
        first.later = later.later = later
        return first

    def _leaves_text(self, symbols: Symbols | None) -> bool:
        """Return True if there is text that the pipeline only splits, and it can be recognized."""
        inserts = self._prefix or self._prepends
        if symbols is None and (inserts or self.changes_added):
            return False
        if inserts and self._known is not None and not self._known(b" ", None).all():
            return False
        return (
            self._splitter is not None
            and self._splitter.automaton is not None
            and not self._marks.suffix
            and not self._pretokenizer.removes_space
            and self._normalizer.forms is not None
            and self._normalizer.space in ("", self._space)
        )

    @property
    def is_plain_split(self) -> bool:
        """True if the pipeline is equivalent to a splitter."""
        return self._cuts and not self._normalizer.changes and self._known is None and not self._space

    @property
    def pattern(self) -> Pattern | None:
        """The split pattern equivalent to the pre-tokenizer, if there is one."""
        found = self._splitter.pattern if self._splitter is not None else None
        return (found.name or found.source) if found is not None else None

    @property
    def automaton(self) -> SplitAutomaton | None:
        """The automaton for unchanged text, if such a text is encoded as it is."""
        return self.direct.automaton if self.direct is not None and self._cuts else None

    @property
    def addresses(self) -> Array:
        """The addresses of the automaton's arrays; there must be one."""
        assert self.direct is not None
        return self.direct.addresses

    # ---- running -----------------------------------------------------------------------------------------------------

    def is_noop(self, data: bytes) -> bool:
        """Return True if the text is certainly unchanged, so that `direct` splits it."""
        return self._cuts and not self._has_space(data) and self._is_unchanged(data)

    def _has_space(self, data: bytes) -> bool:
        """Return True if a text has the character that stands for a space."""
        return self._space != "" and self._space.encode() in data

    def _is_unchanged(self, data: bytes) -> bool:
        """Return True if no step changes a text, apart from the space, and from what is inserted before each part."""
        if self._known is not None and not self._known(data, None).all():
            return False
        # To decode a text takes as long as to encode it.
        forms = self._normalizer.forms
        return forms == () or data.isascii() or self._normalizer.is_noop(data.decode("utf-8", "surrogateescape"))

    def rewrite(self, data: bytes) -> bytes | None:
        """Return a text that `direct` splits as the pipeline splits `data`, or None if there is none.

        A space is inserted where the pipeline inserts one, and the character that stands for a space is one.
        """
        if self.direct is None:
            return None
        if self._spacing is not None:
            return self._spacing.encoded(data)
        marked = self._has_space(data)
        if marked:
            if self._spaced:
                return None
            data = data.replace(self._space.encode(), b" ")
        if not self._is_unchanged(data) or next(iter(self._changed.spans(data)), None) is not None:
            return None
        if self._cuts:
            return data
        if next(iter(self._added.spans(data)), None) is not None:
            if self._spaced or not (self._plain or (self._strips and not marked)):
                return None
            return self._with_spaces(data) if self._plain else self._stripped(data)
        prefixed = self._prefixed(data, first=True)
        # An added token could begin with the space that is inserted.
        return None if self._spaced and prefixed != data else prefixed

    def _prefixed(self, data: bytes, *, first: bool) -> bytes:
        """Return a part of a text, which may be the first, with the space before it."""
        if not data or (first and not self._begins):
            return data
        if self._prepends:
            return b" " + data
        wanted = self._prefix == "always" or (self._prefix == "first" and first)
        return b" " + data if wanted and not data.startswith(b" ") else data

    def _with_spaces(self, data: bytes) -> bytes:
        """Return a text with the space before each part between added tokens."""
        parts: list[bytes] = []
        done = 0
        for start, end in self._added.spans(data):
            parts += self._prefixed(data[done:start], first=not done), data[start:end]
            done = end
        return b"".join([*parts, self._prefixed(data[done:], first=not done)])

    def _stripped(self, data: bytes) -> bytes | None:
        """Return the same without the white space that added tokens strip; None if other tokens would be found in it."""
        text = data.decode("utf-8", "surrogateescape")
        parts: list[bytes] = []
        places: list[tuple[int, int]] = []
        n_bytes = 0
        for first, after, token in self._raw.spans(text):
            within = [(0, 0, token)] if token else self._normalized.spans(text[first:after])
            for start, end, found in within:
                part = found or self._prefixed(
                    text[first + start : first + end].encode("utf-8", "surrogateescape"), first=first + start == 0
                )
                if found:
                    places.append((n_bytes, n_bytes + len(part)))
                parts.append(part)
                n_bytes += len(part)
        stripped = b"".join(parts)
        return stripped if [*self._added.spans(stripped)] == places else None

    def run(self, data: bytes, cut: int | None = None) -> tuple[Array, Array]:
        """Normalize and split a text.

        Parameters
        ----------
        data : bytes
        cut : int, optional
            A position returned by `find_cut` at which to stop; the text after it only completes the last span.

        Returns
        -------
        text : uint8[:]
            The normalized text, padded. Added tokens are in it unchanged.
        ends : uint32[:]
            The end of each span, with the special flag if the span is an added token.
        """
        with text_limits(len(data), self._regex_timeout):
            ahead = 0 if cut is None or not self.cuts_within else len(data) - cut
            if cut is not None and not self.cuts_within:
                data = data[:cut]
            text = data.decode("utf-8", "surrogateescape")
            # What is before the first character counts for the prefix, also if it is removed.
            needed = self._prefix == "first" and self._normalizer.forms is None
            out, ends, *_ = self._prepare(AlignedText(text, one_to_one(len(text)) if needed else None))
        # Text after the cut is unchanged, so it has the same length in the output.
        ends = ends[: np.searchsorted(ends & np.uint32(POSITION_MASK), len(out) - ahead, side="right")]
        return padded_text(out)[0], ends

    def align(self, data: bytes, areas: Array | None = None) -> PreTokenizedText:
        """Normalize and split a text like `run`, with the alignment to the original. It takes many times as long.

        Parameters
        ----------
        data : bytes
        areas : int64 [areas, 2], optional
            Starts and ends, in characters of the decoded text, of the areas in which added tokens are found; by default the
            whole text. A character composed from several areas is in none of them.
        """
        text = data.decode("utf-8", "surrogateescape")
        with text_limits(len(data), self._regex_timeout):
            out, ends, covered, found = self._prepare(AlignedText(text, one_to_one(len(text))), areas)
        if self._spacing is not None:
            starts, stops = self._spacing.byte_ranges(text, out.decode())
            return PreTokenizedText(padded_text(out)[0], ends, starts, stops, found)
        first, last = (concatenated(sources[side] for sources in covered) for side in (0, 1))
        starts, stops = byte_ranges(np.frombuffer(out, np.uint8), first, last, text)
        return PreTokenizedText(padded_text(out)[0], ends, starts, stops, found)

    def _prepare(
        self, text: AlignedText, areas: Array | None = None
    ) -> tuple[bytes, Array, list[tuple[Array, Array]], list[str]]:
        """Normalize and split a text.

        Returns
        -------
        out : bytes
        ends : uint32 [spans]
        covered : list of (int64 arrays, int64 arrays)
            The first and the last original character that each byte maps to, part by part; nothing without sources.
        found : list of str
        """
        out: list[bytes] = []
        ends: list[Array] = []
        covered: list[tuple[Array, Array]] = []
        found: list[str] = []
        for number, (part, token) in enumerate(self._parts(text, areas)):
            if token is None:
                first = number == 0 and (part.sources is None or not part.text or part.sources.of[0] == 0)
                data, data_ends, sources = self._pieces(part, first=first)
                if sources is not None:
                    covered.append(sources)
            else:
                data = token
                data_ends = np.array([len(token) | SPECIAL_FLAG], np.uint32)
                found.append(part.text)
                if part.sources is not None:
                    of = part.sources.of
                    covered.append((np.full(len(token), of[0]), np.full(len(token), of[-1])))
            out.append(data)
            ends.append(data_ends)
        offsets = np.cumsum([0, *map(len, out)]).astype(np.uint32)
        every = [numbers + offset for numbers, offset in zip(ends, offsets, strict=False)]
        return b"".join(out), concatenated(every, np.uint32), covered, found

    def _parts(self, text: AlignedText, areas: Array | None) -> Iterator[tuple[AlignedText, bytes | None]]:
        """Yield the normalized text between added tokens, and the added tokens with their bytes."""
        for start, end, token in self._raw.spans(text.text, areas):
            part = text.slice(start, end)
            if token is not None:
                yield part, token
                continue
            part = self._normalizer(part)
            if self._prepends and not (start or self._begins) and part.text:
                part = part.slice(1, len(part.text))
            for begin, stop, later in self._normalized.spans(part.text, None if areas is None else part.within(areas)):
                yield part.slice(begin, stop), later

    def _pieces(self, part: AlignedText, *, first: bool) -> tuple[bytes, Array, tuple[Array, Array] | None]:
        """Return a part without added tokens as bytes, and the ends of its spans.

        The third item is the original characters that each byte begins and ends in, if they are wanted. `first` is True if
        nothing is before the part.
        """
        if self._splitter is not None:
            if self._space:
                part = part._replace(text=part.text.replace(self._space, " "))
            if (self._begins or not first) and (self._prefix == "always" or (self._prefix and first)):
                part = part.changed(PREFIX_SPACE)
            data = part.text.encode("utf-8", "surrogateescape")
            sources = None if part.sources is None else np.repeat(part.sources.of, widths(part.text))
            spaces = None
            if self._pretokenizer.removes_space:
                spaces = np.repeat(_IS_SPACE[code_points(part.text)], widths(part.text))
            if self._joins and self._known is not None:
                # Tokens may cross what is removed.
                data, _, covered = self._marks.apply(data, np.array([len(data)]), sources)
                return data, self._split(data), covered
            return self._marks.apply(data, self._split(data), sources, spaces)
        pieces = self._pretokenizer.pieces(part, first=first)
        joined = "".join(piece.text for piece in pieces)
        lengths = np.array([len(piece.text) for piece in pieces], np.int64)
        aligned = [piece.sources for piece in pieces if piece.sources is not None]
        sources = None if part.sources is None else concatenated(found.of for found in aligned)
        if self._pretokenizer.level:  # in GPT-2's byte characters, one for each byte
            return self._marks.apply(decode_byte_characters(joined), np.cumsum(lengths).astype(np.uint32), sources)
        if self._space:
            joined = joined.replace(self._space, " ")
        starts = starts_of(widths(joined))
        data = joined.encode("utf-8", "surrogateescape")
        sources = None if sources is None else np.repeat(sources, np.diff(starts))
        return self._marks.apply(data, starts[np.cumsum(lengths)].astype(np.uint32), sources)

    def _split(self, data: bytes) -> Array:
        """Return the ends of the spans of a text without added tokens."""
        text, n_bytes = padded_text(data)
        ends = self._stages[0].split(text, n_bytes)
        for stage in self._stages[1:]:
            ends = stage.split_within(text, ends)
        return ends

    # ---- cutting -----------------------------------------------------------------------------------------------------

    def find_cut(self, text: Array, lo: int, hi: int, stop: int) -> int:
        """Return the first position in `lo:hi + 1` where the text may be cut, or -1 (see `Splitter.find_cut`)."""
        if not self.cuts_within or self.direct is None:
            return self._finder.find_end(text, lo, hi, stop, self._cut_after)
        while lo <= hi:
            cut = self.direct.find_cut(text, lo, hi, stop)
            if cut < 0 or (self._unchanged_around(text, cut, stop) and (self._cuts or self._is_apart(text, cut))):
                return cut
            lo = cut + 1
        return -1

    def ends_special(self, text: Array, position: int, stop: int) -> bool:
        """Return True if the text may be cut at a position, where an added token ends (see `Splitter.ends_special`)."""
        return self.find_cut(text, position, position, stop) == position

    def _unchanged_around(self, text: Array, cut: int, stop: int) -> bool:
        """Return True if the text around a position is normalized, far enough that no added token can span the position."""
        if cut + self._margin > stop:
            return False
        after = text[cut : cut + self._margin].tobytes()
        before = text[max(cut - self._margin - 4, 0) : cut].tobytes()
        if before.isascii() and after.isascii() and self._known is None:
            return True
        while before and before[0] & 0xC0 == 0x80:
            before = before[1:]
        try:
            following = after.decode()
            window = before.decode() + following
        except UnicodeDecodeError:
            return False
        data = window.encode()
        return starts_anew(following) and not self._has_space(data) and self._is_unchanged(data)

    def _is_apart(self, text: Array, cut: int) -> bool:
        """Return True if no added token is near a position, nor strips white space across it."""
        before = text[max(cut - self._margin, 0) : cut].tobytes()
        if next(iter(self._added.spans(before + text[cut : cut + self._margin].tobytes())), None) is not None:
            return False
        return self._plain or not before.decode("utf-8", "replace")[-1:].isspace()

    def find_last_cut(self, text: Array, first: int, filled: int) -> int:
        """Return the last position in `text[first:filled]` where the text may be cut whatever follows, or `first`.

        Parameters
        ----------
        text : uint8[:]
        first : int
            The start of the text, or an earlier cut.
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

    def margin_end(self, cut: int, filled: int) -> int:
        """Return the end of the text that must be known to run the pipeline up to a cut."""
        return min(cut + self._margin, filled)


def _check_contents(contents: Mapping[str, str]) -> None:
    """Raise if an added token is empty after normalization, or equal to another."""
    seen: dict[str, str] = {"": ""}
    for text, content in contents.items():
        other = seen.setdefault(content, text)
        if other != text:
            found = f"and {shorten(other)} are the same when normalized" if content else "is empty after normalization"
            raise TokenizerFormatError(
                f"the added token {shorten(text)} {found}; expected a text of its own that can be found: remove one"
            )
