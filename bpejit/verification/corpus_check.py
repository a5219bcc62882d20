"""Check that a token file decodes to its corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from bpejit.arguments import no_progress
from bpejit.arrays import Array
from bpejit.corpus.blocks import Block, ChunkReader
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.contents import Contents
from bpejit.corpus.input_paths import Inputs
from bpejit.corpus.sources import Source, find_sources
from bpejit.errors import TokenFileError, UnsupportedError, shorten
from bpejit.model import Model, special_bytes
from bpejit.progress_bar import Progress
from bpejit.splitting.splitter import Splitter
from bpejit.tokenfiles.base import TokenReader
from bpejit.tokenizer import Tokenizer

_BLOCK = 1 << 16

_SHOWN = 40
"""Number of bytes that a message shows."""


def check_corpus(
    tokenizer: Tokenizer, tokens: TokenReader, inputs: Inputs, contents: Contents, *, progress: Progress = no_progress
) -> tuple[int, int]:
    """Decode a token file, and compare it with its corpus. Memory does not grow with either.

    The inputs are the corpus, in the order in which it was encoded, and `contents` says how it was read.

    Returns
    -------
    n_bytes, n_added : int
        Bytes of the corpus, and special tokens that are not in it, such as those that `append_token` adds.

    Raises
    ------
    TokenFileError
        If the text differs, with the position of the first difference. Special tokens that the corpus does not contain are
        ignored.
    UnsupportedError
        If the tokenizer changes text.
    """
    model = tokenizer.model
    pipeline = model.pipeline
    if model.symbols_obstacle is not None or (pipeline is not None and pipeline.normalizer != "null"):
        raise UnsupportedError(
            "the tokenizer changes text, or has no tokens for some of it, so its ids do not decode to the corpus; expected one "
            "whose tokens have all bytes of a text: leave out the corpus"
        )
    corpus = _Corpus(block_reader(model)(find_sources(inputs, contents)))
    specials = {number: special_bytes(text) for text, number in model.special_tokens.items()}
    special_ids = np.array(sorted(specials), np.int64)
    done = added = 0
    progress("decode", 0, tokens.n_tokens, "tokens")
    for ids in tokens.blocks(_BLOCK):
        for run, special in _runs(ids, special_ids):
            if run.size:
                corpus.expect(tokenizer.decode_bytes(run), tokens, done)
                done += int(run.size)
            if special is not None:
                added += not corpus.take(specials[special])
                done += 1
        progress("decode", done, tokens.n_tokens, "tokens")
    rest = corpus.peek(_SHOWN)
    if rest:
        raise TokenFileError(
            f"`{tokens.path}` does not decode to the corpus: it ends after {corpus.position} bytes, and the corpus goes on "
            f"with {shorten(rest)}; expected the same text: encode it again, or name the inputs that were encoded"
        )
    return corpus.position, added


def _runs(ids: Array, special_ids: Array) -> Iterator[tuple[Array, int | None]]:
    """Yield runs of ids without special tokens, each with the special token after it."""
    cuts = np.flatnonzero(np.isin(ids, special_ids)).tolist()
    for before, at in pairwise([-1, *cuts]):
        yield ids[before + 1 : at], int(ids[at])
    yield ids[cuts[-1] + 1 if cuts else 0 :], None


def block_reader(model: Model) -> Callable[[list[Source]], Iterator[Block]]:
    """Return a function that yields the text of sources in blocks, which end where a tokenizer of the model may cut it."""
    tokens = map(special_bytes, model.special_tokens)
    splitter = Splitter(model.pattern, tokens, unicode=model.unicode, regex_timeout=model.regex_timeout)
    reader = ChunkReader()
    return lambda sources: (chunk.read(reader) for chunk in Chunker(splitter).chunks(sources))


class _Corpus:
    """The text of a corpus, compared piece by piece."""

    def __init__(self, blocks: Iterator[Block]) -> None:
        self.position = 0
        self._specials = True
        self._rest = memoryview(b"")
        self._blocks = blocks

    def peek(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        while len(self._rest) < size and (block := next(self._blocks, None)) is not None:
            self._specials = block.specials
            self._rest = memoryview(bytes(self._rest) + block.text[: block.cut].tobytes())
        return bytes(self._rest[:size])

    def take(self, text: bytes) -> bool:
        """Skip the text of a special token, if the corpus goes on with it."""
        found = self.peek(len(text)) == text and self._specials
        if found:
            self._skip(len(text))
        return found

    def expect(self, text: bytes, tokens: TokenReader, n_tokens: int) -> None:
        """Skip decoded text, or raise TokenFileError if the corpus goes on with another one."""
        found = self.peek(len(text))
        if found != text:
            least = min(len(found), len(text))
            same = np.frombuffer(found, np.uint8, least) == np.frombuffer(text, np.uint8, least)
            at = least if same.all() else int(np.argmin(same))
            raise TokenFileError(
                f"`{tokens.path}` does not decode to the corpus: at byte {self.position + at} its text is "
                f"{shorten(text[at : at + _SHOWN])} (in the ids from {n_tokens} on); expected "
                f"{shorten(found[at : at + _SHOWN])}: encode the text again, or name the inputs that were encoded"
            )
        self._skip(len(text))

    def _skip(self, size: int) -> None:
        self._rest = self._rest[size:]
        self.position += size
