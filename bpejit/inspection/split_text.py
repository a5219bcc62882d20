"""The spans of inputs under a split pattern, block by block, for `bpejit split`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bpejit.arrays import Array
from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped
from bpejit.corpus.chunks import Chunker, ChunkReader
from bpejit.corpus.sources import Source
from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG
from bpejit.splitting import Splitter


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
