"""Compare every id of the same documents with those of another tool, and what a token file decodes to with its corpus."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from os.path import commonprefix
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bpejit import arguments
from bpejit.arguments import no_progress
from bpejit.arrays import Array
from bpejit.corpus.blocks import NOTHING_SKIPPED, Block, ChunkReader, Skipped, no_texts
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.contents import Contents
from bpejit.corpus.input_paths import Inputs
from bpejit.corpus.reading_options import Documents, Records
from bpejit.corpus.sources import Source, find_sources, total_bytes
from bpejit.engines import ProgressOption
from bpejit.errors import BpejitError, TokenFileError, UnsupportedError, shorten
from bpejit.formats.any_format import recognize, save_model
from bpejit.formats.tiktoken_ranks import tiktoken_pattern
from bpejit.formats.tokenizer_files import read_tokenizer_file
from bpejit.jit.listening import working_time
from bpejit.model import Model, special_bytes
from bpejit.options import chosen, takes
from bpejit.progress_bar import Progress
from bpejit.splitting.splitter import Splitter
from bpejit.storage.files import StrPath
from bpejit.tokenfiles.readers import TokenReader
from bpejit.tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

Tool = Literal["tokenizers", "tiktoken", "sentencepiece"]

SEPARATOR = "<|endoftext|>"
"""The default text between two documents in a file."""

LONGEST_DOCUMENT = 4 << 20
"""Longer documents, in bytes, are compared in parts: other tools take much time and memory for long texts."""

BATCH_BYTES = 2 << 20
"""Number of bytes that are encoded at a time."""

SHOWN_TOKENS = 12
"""Maximum number of tokens of each tool that a difference shows."""

_Document = tuple[str, int, bytes]
"""Path of a file, number of a document in it from 1, and bytes."""

Reference = Callable[[Sequence[str]], list[list[int]]]
"""A function of another tool from texts to ids."""


@dataclass(frozen=True)
class Difference:
    """The first position at which the ids of two tools differ.

    Parameters
    ----------
    path : str
        Path of the file.
    document : int
        Number of the document in the file, from 1.
    start, end : int
        Range of bytes in the document that the tools tokenize differently.
    text : str
        The text of that range, with some context.
    ours, theirs : list of (int, bytes or None)
        Ids and bytes of the tokens in that range. The bytes are None for an id that is not in the vocabulary.
    """

    path: str
    document: int
    start: int
    end: int
    text: str
    ours: list[tuple[int, bytes | None]]
    theirs: list[tuple[int, bytes | None]]


@dataclass(frozen=True)
class VerifyReport:
    """The result of `verify`.

    Parameters
    ----------
    tool : str
        The other tool and its version.
    documents, bytes, ids : int
        Amounts compared, up to the first difference.
    repaired : int
        Number of documents that were not valid UTF-8. Other tools require text, so both tools encoded them with U+FFFD in
        place of the invalid bytes.
    seconds : float
    difference : Difference, optional
        None if all ids are equal.
    skipped : Skipped
        Records without text.
    """

    tool: str
    documents: int
    bytes: int
    ids: int
    repaired: int
    seconds: float
    difference: Difference | None
    skipped: Skipped = NOTHING_SKIPPED


class VerifyOptions(Documents, Records, ProgressOption, total=False):
    """The options of `verify`."""


@takes(VerifyOptions)
def verify(
    tokenizer: Tokenizer,
    inputs: Inputs,
    *,
    against: Tool,
    path: StrPath | None = None,
    separator: str = SEPARATOR,
    **options: Unpack[VerifyOptions],
) -> VerifyReport:
    """Encode files with a tokenizer and with another tool, and compare the ids up to the first difference.

    Both tools find special tokens in the text, also in that of records. Templates that add tokens are not applied.

    Parameters
    ----------
    tokenizer : Tokenizer
    inputs : path, list of paths, or iterator of texts
        As for `bpejit.train`.
    against : str
        `tokenizers`, `tiktoken` or `sentencepiece`, which must be installed.
    path : path, optional
        The path that the tokenizer was loaded from. If it is a file of the other tool, the tool reads that file. Otherwise
        it reads an export of bpejit.
    separator : str
        The text between two documents in plain text, if `documents` is `separator`.
    {options}

    Raises
    ------
    BpejitError
        If the other tool is not installed, or does not support this tokenizer.
    CorpusError
        If a file cannot be read.
    """
    begun = working_time()
    arguments.instance("tokenizer", tokenizer, Tokenizer, "load one with bpejit.load")
    arguments.choice("against", against, _references)
    arguments.string("separator", separator)
    path = None if path is None else arguments.path("path", path)
    report = arguments.progress(options["progress"])
    reference = _references[against](tokenizer, path)
    contents = Contents(allow_special=True, **chosen(Documents, options), **chosen(Records, options))
    sources = find_sources(inputs, contents)
    total = total_bytes(sources)
    n_documents = n_bytes = n_ids = repaired = n_read = 0
    skipped = NOTHING_SKIPPED

    def count_block(block: Block) -> None:
        nonlocal n_read, skipped
        n_read += block.n_read
        skipped += block.skipped

    difference = None
    report("verify", 0, total, "bytes")
    for batch in _batches(_documents(tokenizer, sources, separator.encode(), count_block)):
        texts = [data.decode("utf-8", "replace") for _, _, data in batch]
        ours = tokenizer.encode_batch(texts)
        theirs = reference(texts)
        for (name, number, data), text, mine, other in zip(batch, texts, ours, theirs, strict=True):
            n_documents += 1
            n_bytes += len(data)
            n_ids += mine.size
            repaired += text.encode("utf-8", "replace") != data
            if mine.size != len(other) or not np.array_equal(mine, other):
                difference = _describe(tokenizer, name, number, text.encode(), mine, other)
                break
        report("verify", n_read, total, "bytes")
        if difference is not None:
            break
    tool = f"{against} {version(against)}"
    if skipped and not n_documents:
        raise no_texts(skipped)
    return VerifyReport(tool, n_documents, n_bytes, n_ids, repaired, working_time() - begun, difference, skipped)


def _documents(
    tokenizer: Tokenizer, sources: list[Source], separator: bytes, count_block: Callable[[Block], None]
) -> Iterator[_Document]:
    """Yield path, number and bytes of each document, its separator included. Parts of a long document have one number."""
    blocks = block_reader(tokenizer.model)
    for source in sources:
        waiting = b""
        number = 1
        for content in blocks([source]):
            count_block(content)
            if content.ends is not None:
                for document in content.documents():
                    yield source.path, number, document
                    number += 1
                continue
            waiting += content.text[: content.cut].tobytes()
            *whole, waiting = waiting.split(separator) if separator and content.separated else [waiting]
            for document in whole:
                yield source.path, number, document + separator
                number += 1
            if len(waiting) > LONGEST_DOCUMENT:
                # Chunks end at positions where text may be cut.
                yield source.path, number, waiting
                waiting = b""
        if waiting:
            yield source.path, number, waiting


def _batches(documents: Iterator[_Document]) -> Iterator[list[_Document]]:
    batch: list[_Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document[2])
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _describe(
    tokenizer: Tokenizer,
    path: str,
    number: int,
    data: bytes,
    ours: Array,
    theirs: list[int],
) -> Difference:
    """Return the first range of bytes with boundaries that both tools have, and different ids inside."""
    vocab = tokenizer.vocab
    sides = [[(int(token), vocab.get(int(token))) for token in ids] for ids in (ours, theirs)]
    same = len(commonprefix(sides))  # noqa: RUF071 - of lists
    start = sum(len(token or b"") for _, token in sides[0][:same])
    sides = [side[same:] for side in sides]
    lengths = [[len(token or b"") for _, token in side] for side in sides]
    ends = [(start + np.cumsum(of_side, dtype=np.int64)).tolist() for of_side in lengths]
    # The length of an unknown id is not known, so the range ends with the document.
    known = all(token is not None for _, token in sides[1])
    common = min(set(ends[0]) & set(ends[1]), default=len(data)) if known else len(data)
    shown = []
    for side, of in zip(sides, ends, strict=True):
        stop = of.index(common) + 1 if known and common in of else len(side)
        shown.append(side[:stop][:SHOWN_TOKENS])
    text = data[max(start - 40, 0) : common + 40].decode("utf-8", "replace")
    return Difference(path, number, start, common, text, *shown)


# ---- the other tools -------------------------------------------------------------------------------------------------


def _imported(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as cause:
        name = module.partition(".")[0]
        raise BpejitError(f"`{name}` is not installed ({cause}); expected it, to compare with: `pip install {name}`") from cause


def _recognized(path: StrPath | None) -> tuple[str, Path]:
    """Return the format and the location of the file that a tokenizer was loaded from."""
    if path is None or not Path(path).exists():
        return "bpejit", Path()
    return recognize(path)


def _tokenizers(tokenizer: Tokenizer, path: StrPath | None) -> Reference:
    from_file = _imported("tokenizers").Tokenizer.from_file
    kind, location = _recognized(path)
    if kind == "hf" and location.suffix != ".gz":
        other = from_file(str(location / "tokenizer.json" if location.is_dir() else location))
    else:
        with tempfile.TemporaryDirectory() as folder:
            save_model(tokenizer.model, Path(folder) / "tokenizer", format="hf")
            other = from_file(str(Path(folder) / "tokenizer" / "tokenizer.json"))
    other.no_truncation()
    other.no_padding()
    return lambda texts: [found.ids for found in other.encode_batch(list(texts), add_special_tokens=False)]


def _tiktoken(tokenizer: Tokenizer, path: StrPath | None) -> Reference:
    load, encoding = _imported("tiktoken.load").load_tiktoken_bpe, _imported("tiktoken").Encoding
    kind, location = _recognized(path)
    model = tokenizer.model
    ranks = load(str(location)) if kind == "tiktoken" and location.suffix != ".gz" else dict(model.ids)
    other = encoding(
        "compared", pat_str=tiktoken_pattern(model), mergeable_ranks=ranks, special_tokens=dict(model.special_tokens)
    )
    return lambda texts: other.encode_batch(list(texts), allowed_special="all")


def _sentencepiece(tokenizer: Tokenizer, path: StrPath | None) -> Reference:  # noqa: ARG001
    processor = _imported("sentencepiece").SentencePieceProcessor
    kind, location = _recognized(path)
    if kind != "sentencepiece":
        raise BpejitError(f"`sentencepiece` does not read `{path}`; expected the `.model` of a tokenizer: pass its path")
    encode: Reference = processor(model_proto=read_tokenizer_file(location)).encode
    return encode


_references: dict[str, Callable[[Tokenizer, StrPath | None], Reference]] = {
    "tokenizers": _tokenizers,
    "tiktoken": _tiktoken,
    "sentencepiece": _sentencepiece,
}


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
