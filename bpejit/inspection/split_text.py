"""The spans of a text under a split pattern; those of inputs, block by block, for `bpejit split`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, ByteStrings, padded_text
from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped
from bpejit.corpus.chunks import Chunker, ChunkReader
from bpejit.corpus.sources import Source
from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG
from bpejit.model import special_bytes
from bpejit.splitting import Pattern, Splitter
from bpejit.splitting.presets import pattern_source
from bpejit.utf8 import encode_utf8

Text = TypeVar("Text", str, bytes)


@arguments.explain_wrong_arguments
def split(
    text: Text, pattern: Pattern = "gpt2", *, special_tokens: Sequence[str] = (), unicode: str | None = None
) -> list[Text]:
    """Split a text into pre-tokens, the units that merges never cross.

    Parameters
    ----------
    text : str or bytes
    pattern : str or tuple of str
        The name of a preset (see `bpejit.splitting.PRESETS`), a regular expression, or a sequence of regular expressions.
    special_tokens : list of str
        Texts that are found before the pattern is applied; each is one item of the result.
    unicode : str, optional
        The version of Unicode of the pattern, such as "16.0"; by default that of the installed `regex` package.

    Returns
    -------
    list of str, or of bytes for bytes
        Joined, they are the text.

    Raises
    ------
    ArgumentTypeError, PatternError

    Examples
    --------
    >>> split("it's 2026")
    ['it', "'s", ' 2026']
    """
    given = arguments.as_bytes("text", text)
    specials = arguments.special_tokens("special_tokens", special_tokens)
    version = arguments.optional_string("unicode", unicode)
    source = pattern_source(arguments.pattern("pattern", pattern))
    splitter = Splitter(source, map(special_bytes, specials), unicode=version)
    padded, n_bytes = padded_text(encode_utf8(given) if isinstance(given, str) else given)
    ends = splitter.split(padded, n_bytes) & POSITION_MASK
    found: list[Any] = list(ByteStrings(padded[:n_bytes], np.append(0, ends).astype(np.int64)))
    return [piece.decode("utf-8") for piece in found] if isinstance(given, str) else found


@dataclass
class SplitText:
    """What is split, and the totals of what was split so far.

    Parameters
    ----------
    splitter : Splitter
    n_bytes, n_spans, n_specials : int
        Bytes, spans, and special tokens among these.
    skipped : Skipped
        Records without text.
    """

    splitter: Splitter
    n_bytes: int = 0
    n_spans: int = 0
    n_specials: int = 0
    skipped: Skipped = NOTHING_SKIPPED

    def blocks(self, source: Source) -> Iterator[tuple[Array, int, Array]]:
        """Yield the blocks of a source: text, start of the first span, and ends of all spans."""
        reader = ChunkReader()
        plain = Splitter(self.splitter.pattern, [])
        for chunk in Chunker(self.splitter).chunks([source]):
            content = reader.read(chunk)
            self.n_bytes += content.cut
            self.skipped += content.skipped
            splitter = self.splitter if content.specials else plain
            for first, ends, n in splitter.blocks(content.text, content.stops, content.cut, content.final):
                self.n_spans += n
                self.n_specials += int((ends[:n] >= SPECIAL_FLAG).sum())
                yield content.text, first, ends[:n]

    def spans(self, source: Source, count: int | None) -> Iterator[list[tuple[bytes, bool]]]:
        """Yield the first `count` spans of a source in each block: their bytes, and True for special tokens."""
        for text, first, ends in self.blocks(source):
            spans = []
            for end in ends[:count].tolist():
                spans.append((text[first : end & POSITION_MASK].tobytes(), bool(end & SPECIAL_FLAG)))
                first = end & POSITION_MASK
            count = None if count is None else count - len(spans)
            yield spans
