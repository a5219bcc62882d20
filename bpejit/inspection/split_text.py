"""Text that is split into pre-tokens, block by block, by a split pattern or by a tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from bpejit.arrays import Array
from bpejit.corpus.blocks import NOTHING_SKIPPED
from bpejit.corpus.chunks import Chunker, ChunkReader
from bpejit.encoding.encoder import Encoder
from bpejit.formats.any_format import load_model
from bpejit.inspection.token_rows import flagged_spans, written
from bpejit.kernels.constants import SPECIAL_FLAG
from bpejit.model import Model, special_bytes
from bpejit.splitting import Pattern, Splitter, compile_pattern
from bpejit.splitting.presets import pattern_source, stages_of

if TYPE_CHECKING:
    from bpejit.corpus.sources import Source
    from bpejit.encoding.kernel_runner import AnySplitter


class SplitText:
    """What is split, with the totals so far: bytes, spans, special tokens among these, and skipped records.

    Parameters
    ----------
    splitter, plain : Splitter or TextPipeline
        The one that finds special tokens, and the one for text in which they are ordinary.
    model : Model, optional
        The tokenizer, if it has more than a split pattern.
    """

    def __init__(self, splitter: AnySplitter, plain: AnySplitter, model: Model | None) -> None:
        self.splitter, self.plain, self.model = splitter, plain, model
        if isinstance(splitter, Splitter):
            self.pattern = splitter.pattern
        else:
            assert model is not None
            self.pattern = compile_pattern(model.pattern, unicode=model.unicode)
        self.n_bytes = self.n_spans = self.n_specials = 0
        self.skipped = NOTHING_SKIPPED

    def blocks(self, source: Source) -> Iterator[tuple[Array, int, Array]]:
        """Yield the blocks of a source: text, start of the first span, and ends of all spans."""
        reader = ChunkReader()
        for chunk in Chunker(self.splitter).chunks([source]):
            content = chunk.read(reader)
            self.n_bytes += content.cut
            self.skipped += content.skipped
            splitter = self.splitter if content.specials else self.plain
            if isinstance(splitter, Splitter):
                blocks = splitter.blocks(content.text, content.stops, content.cut, content.final)
                found = ((content.text, first, ends[:n]) for first, ends, n in blocks)
            else:  # each document by itself, as it is encoded
                bounds = pairwise([0, *content.stops.tolist()])
                cut = None if content.final else content.cut
                runs = (splitter.run(content.text[start:stop].tobytes(), cut) for start, stop in bounds)
                found = ((text, 0, ends) for text, ends in runs)
            for text, first, ends in found:
                self.n_spans += ends.size
                self.n_specials += int((ends >= SPECIAL_FLAG).sum())
                yield text, first, ends

    def spans(self, source: Source, count: int | None) -> Iterator[list[tuple[bytes, bool]]]:
        """Yield the first `count` spans of a source in each block: their bytes, and True for special tokens."""
        for text, first, ends in self.blocks(source):
            spans = [(self.written(span), special) for span, special in flagged_spans(text, ends[:count], first)]
            count = None if count is None else count - len(spans)
            yield spans

    def written(self, span: bytes) -> bytes:
        """Return a span as text (see `bpejit.inspection.token_rows.written`)."""
        return span if self.model is None else written(span, self.model)


def chosen_split(
    *, patterns: Sequence[str], special_tokens: Sequence[str], tokenizer: str | None, unicode: str | None
) -> SplitText:
    """Return an object that splits text by patterns one after the other, or as a tokenizer does."""
    pattern: Pattern = tuple(stage for name in patterns or ("gpt2",) for stage in stages_of(pattern_source(name)))
    if tokenizer is not None:
        model = load_model(tokenizer, unicode=unicode)
        if model.pipeline is not None:
            model = model.with_special_tokens(special_tokens)
            encoder = Encoder(model)
            return SplitText(encoder.splitter, encoder.splitter_for(frozenset()), model)
        pattern, unicode = model.pattern, model.unicode
        special_tokens = (*model.special_tokens, *special_tokens)
    splitter = Splitter(pattern, [special_bytes(text) for text in special_tokens], unicode=unicode)
    return SplitText(splitter, Splitter(splitter.pattern, []), None)
