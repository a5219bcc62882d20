"""A tokenizer, as its users meet it: encode, decode, from text and from file to file, save, load."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, EncodedBatch
from bpejit.corpus.chunks import CHUNK_BYTES
from bpejit.corpus.contents import Contents
from bpejit.corpus.sources import Inputs
from bpejit.encoding.cache_budget import Pool, process_budget
from bpejit.encoding.encoder import AnySplitter, Encoder, text_to_bytes
from bpejit.encoding.file_encoding import EncodeReport, decode_file, encode_files
from bpejit.encoding.offsets import TokenOffsets, prepared_offsets, token_offsets
from bpejit.encoding.special_token_policy import Segments, SpecialChoice, allowed_tokens, encode_segments, locate_segments
from bpejit.encoding.stream_decoder import StreamDecoder, decode_stream
from bpejit.encoding.workspace import Workspace
from bpejit.engines import check_spread
from bpejit.engines.base import Progress, no_progress
from bpejit.errors import OptionError, OutputError, TokenFileError, TokenizerFormatError, shorten
from bpejit.formats.export import FORMATS, save_model
from bpejit.formats.gpt2 import model_from_vocab, read_gpt2_pair
from bpejit.formats.recognise import load_model
from bpejit.model import Model
from bpejit.normalization import PreparedText, Preparer
from bpejit.process_memory import collector_paused
from bpejit.splitting import Pattern
from bpejit.splitting.unicode_versions import installed_unicode
from bpejit.tokenfiles.description import DTYPES
from bpejit.tokenizer_config import TokenizerConfig

if TYPE_CHECKING:
    from bpejit.compat.huggingface import HuggingFaceTokenizer
    from bpejit.compat.tiktoken import Encoding as TiktokenEncoding

ITERABLE_IDS = 2048
"""Ids that `encode_iterable` turns into Python integers at a time: a list of more would need fresh memory."""


class Tokenizer:
    """A trained tokenizer: text to token ids and back, exactly.

    It is immutable, can be pickled, and may be used from several threads. All kernels are loaded and all working memory
    is allocated when it is made, or, by `train`, when it is first used.

    Parameters
    ----------
    vocab : dict of int to bytes
        Id and bytes of each token; all 256 single bytes must be there.
    merges : list of (bytes, bytes)
        The pairs in the order in which they are merged.
    special_tokens : list of str, optional
        Always found in text first, the longest where several begin; one that the vocabulary lacks is appended to it.
    pattern : str or tuple of str
        The split pattern: a preset's name (see `bpejit.splitting.PRESETS`), a regular expression, or several of these
        expressions, each of which splits the pieces of the one before.
    unicode : str, optional
        The version of Unicode by which the pattern knows letters from other characters, such as "16.0"; by default that of
        the installed `regex` package. The tokenizer keeps it.

    Raises
    ------
    TokenizerFormatError
        If vocabulary and merges do not make a tokenizer.
    """

    def __init__(
        self,
        vocab: dict[int, bytes],
        merges: list[tuple[bytes, bytes]],
        special_tokens: list[str] | None = None,
        *,
        pattern: Pattern = "gpt2",
        unicode: str | None = None,
    ) -> None:
        unicode = arguments.optional_string("unicode", unicode) or installed_unicode()
        pattern = arguments.pattern("pattern", pattern)
        self._start(model_from_vocab(vocab, merges, special_tokens, pattern=pattern, unicode=unicode))

    def _start(self, model: Model) -> None:
        self._model = model
        self._prepare()

    def _prepare(self) -> None:
        self._encoder = Encoder(self._model)
        # A list is a thread-safe stack: each call takes a workspace of its own and puts it back.
        self._workspaces = Pool([self._encoder.new_workspace()])
        process_budget.add_pool(self._workspaces)

    def __getattr__(self, name: str) -> Any:
        if name in ("_encoder", "_workspaces"):  # of a tokenizer that was made with `later`
            self._prepare()
            return getattr(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def from_model(cls, model: Model, *, later: bool = False) -> Tokenizer:
        """Make a tokenizer from its data.

        Parameters
        ----------
        model : Model
        later : bool
            Whether what encoding needs is made when it is first used: for one that may only be saved.
        """
        tokenizer = cls.__new__(cls)
        arguments.instance("model", model, Model, "give the `model` of a tokenizer, or use bpejit.load for files")
        if later:
            tokenizer._model = model
        else:
            tokenizer._start(model)
        return tokenizer

    @classmethod
    def from_files(
        cls,
        vocab_filepath: str | os.PathLike[str],
        merges_filepath: str | os.PathLike[str],
        special_tokens: list[str] | None = None,
        *,
        pattern: Pattern = "gpt2",
        unicode: str | None = None,
    ) -> Tokenizer:
        """Read GPT-2's pair of files, `vocab.json` and `merges.txt`; the options are those of the constructor.

        Raises
        ------
        TokenizerFormatError
            If a file is missing or broken; the message names file and line.
        """
        unicode = arguments.optional_string("unicode", unicode) or installed_unicode()
        pattern = arguments.pattern("pattern", pattern)
        vocab_path = arguments.path("vocab_filepath", vocab_filepath, error=TokenizerFormatError)
        merges_path = arguments.path("merges_filepath", merges_filepath, error=TokenizerFormatError)
        model = read_gpt2_pair(vocab_path, merges_path, special_tokens, pattern=pattern, unicode=unicode)
        return cls.from_model(model)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer.from_model, (self._model,)

    def __repr__(self) -> str:
        return f"<bpejit.Tokenizer: {self.vocab_size} tokens, pattern {self.pattern!r}>"

    @contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        try:
            workspace = self._workspaces.pop()
        except IndexError:
            workspace = self._encoder.new_workspace()
        try:
            yield workspace
        finally:
            self._workspaces.append(workspace)

    # ---- what it is --------------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The tokenizer as data."""
        return self._model

    @property
    def vocab(self) -> dict[int, bytes]:
        """Bytes of each token, special ones included, by id."""
        return self._model.vocab

    @property
    def merges(self) -> list[tuple[bytes, bytes]]:
        """The pairs in the order in which they are merged."""
        return self._model.merges

    @property
    def vocab_size(self) -> int:
        """One more than the largest id."""
        return self._model.vocab_size

    @property
    def special_tokens(self) -> dict[str, int]:
        """Id of each special token."""
        return self._model.special_tokens

    @property
    def pattern(self) -> Pattern:
        """Name or text of the split pattern; a tuple of texts if it is a sequence."""
        return self._model.pattern

    @property
    def sha256(self) -> str:
        """Hash of all that decides ids; token files carry it."""
        return self._model.sha256

    # ---- encoding ----------------------------------------------------------------------------------------------------

    def encode(
        self,
        text: str | bytes,
        *,
        allowed_special: SpecialChoice | None = None,
        disallowed_special: SpecialChoice | None = None,
    ) -> list[int]:
        """Return the ids of a text as a list; `encode_array` is faster for long texts.

        Parameters
        ----------
        text : str or bytes
        allowed_special, disallowed_special : "all" or a set of special tokens, optional
            Without them every special token is found. If one is given, both mean what they mean in tiktoken: those of
            `allowed_special` are found, by default none; if one of `disallowed_special`, by default all others, is in the
            text, that is an error; the text of the rest is ordinary.

        Raises
        ------
        SpecialTokenError
            If a disallowed special token is in the text.
        """
        ids: list[int] = self.encode_array(
            text, allowed_special=allowed_special, disallowed_special=disallowed_special
        ).tolist()
        return ids

    def encode_array(
        self,
        text: str | bytes,
        *,
        allowed_special: SpecialChoice | None = None,
        disallowed_special: SpecialChoice | None = None,
    ) -> Array:
        """Return the ids of a text as uint32 [tokens]; the options are those of `encode`."""
        splitter = None
        data: Any = text_to_bytes(text) if isinstance(text, str) else arguments.as_bytes("text", text)
        if allowed_special is not None or disallowed_special is not None:
            splitter = self._choose(allowed_special, disallowed_special, [text if isinstance(text, str) else data])
        # As `_workspace`, written out: for a short text a context manager takes as long as the encoding.
        try:
            workspace = self._workspaces.pop()
        except IndexError:
            workspace = self._encoder.new_workspace()
        try:
            return self._encoder.encode(data, workspace, splitter)
        finally:
            self._workspaces.append(workspace)

    def encode_ordinary(self, text: str | bytes) -> list[int]:
        """Return the ids of a text in which nothing is a special token."""
        return self.encode(text, disallowed_special=())

    def encode_batch(
        self,
        texts: Iterable[str | bytes],
        *,
        allowed_special: SpecialChoice | None = None,
        disallowed_special: SpecialChoice | None = None,
    ) -> EncodedBatch:
        """Return the ids of many texts, flat, with their starts; the options are those of `encode`."""
        splitter = None
        given = [
            text if isinstance(text, (str, bytes)) else arguments.as_bytes(f"texts[{place}]", text)
            for place, text in enumerate(arguments.texts("texts", texts))
        ]
        if allowed_special is not None or disallowed_special is not None:
            splitter = self._choose(allowed_special, disallowed_special, given)
        documents = [text_to_bytes(text) if isinstance(text, str) else text for text in given]
        with self._workspace() as workspace:
            return self._encoder.encode_batch(documents, workspace, splitter)

    def _choose(
        self, allowed: SpecialChoice | None, disallowed: SpecialChoice | None, texts: Iterable[str | bytes]
    ) -> AnySplitter:
        return self._encoder.splitter_for(allowed_tokens(self._encoder.special_tokens, allowed, disallowed, texts))

    def encode_segments(self, segments: Segments) -> list[int]:
        """Return the ids of a text whose parts are trusted or not: only in trusted ones are special tokens found.

        For chat templates and the like. Whatever the untrusted parts hold, no special token comes out of them, nor out of the
        parts on both sides of a border. Ordinary text merges across the borders, as it does in the whole text, so that the ids
        are those that a model was trained with: `encode` gives the same for the joined text, if that has no other special
        tokens.

        Parameters
        ----------
        segments : iterable of (str or bytes, bool)
            Parts of the text, and whether each may have special tokens.

        Raises
        ------
        TypeError
            If a segment is not a pair of a text and a bool.

        Examples
        --------
        >>> tokenizer.encode_segments([("<|user|>", True), (question, False), ("<|end|>", True)])  # doctest: +SKIP
        """
        with self._workspace() as workspace:
            ids: list[int] = encode_segments(self._encoder, segments, workspace).tolist()
        return ids

    def encode_with_offsets(
        self,
        text: str | bytes,
        *,
        allowed_special: SpecialChoice | None = None,
        disallowed_special: SpecialChoice | None = None,
    ) -> TokenOffsets:
        """Return the ids of a text, and where each token lies in it; the options are those of `encode`.

        The places are those in the text as it is given, also where the model's preparation changes it.
        """
        return self._locate(text, allowed_special, disallowed_special)[0]

    def _locate(
        self, text: str | bytes, allowed: SpecialChoice | None = None, disallowed: SpecialChoice | None = None
    ) -> tuple[TokenOffsets, PreparedText | None]:
        """Return what `encode_with_offsets` does, and what a preparation made of the text if it may have changed it."""
        encoder = self._encoder
        text = arguments.as_bytes("text", text)
        if isinstance(encoder.splitter, Preparer):
            preparer: AnySplitter = encoder.splitter
            if allowed is not None or disallowed is not None:
                preparer = self._choose(allowed, disallowed, [text])
            data = text_to_bytes(text) if isinstance(text, str) else text
            if isinstance(preparer, Preparer) and not preparer.leaves(data):
                with self._workspace() as workspace:
                    ids, prepared = encoder.encode_aligned(data, workspace, preparer)
                return prepared_offsets(ids, encoder.token_lengths(ids), prepared, [text]), prepared
        ids = self.encode_array(text, allowed_special=allowed, disallowed_special=disallowed)
        return token_offsets(ids, encoder.token_lengths(ids), [text]), None

    def encode_segments_with_offsets(self, segments: Segments) -> tuple[TokenOffsets, Array]:
        """Return the ids of `encode_segments` with their places in the joined text, and the segment in which each begins."""
        with self._workspace() as workspace:
            return locate_segments(self._encoder, segments, workspace)

    def encode_iterable(self, iterable: Iterable[str]) -> Iterator[int]:
        """Return an iterator over the ids of the concatenated pieces, such as the lines of a file; it needs little memory.

        The ids are those of the whole text, wherever it is divided. A pattern that runs through the `regex` package is the
        exception on memory: its text is held until the next special token or the end.
        """
        if not isinstance(iterable, Iterable):
            raise arguments.wrong_type("iterable", iterable, "an iterable of texts", "give a list, a generator or an open file")
        return self._encode_pieces(iterable)

    def _encode_pieces(self, pieces: Iterable[str]) -> Iterator[int]:
        with self._workspace() as workspace:
            stream = self._encoder.stream(workspace)
            for place, piece in enumerate(pieces):
                some = piece if isinstance(piece, str) else arguments.as_bytes(f"iterable[{place}]", piece)
                for ids in stream.blocks(some):
                    yield from _as_integers(ids)
            for ids in stream.blocks("", final=True):
                yield from _as_integers(ids)

    def encode_files(
        self,
        inputs: Inputs,
        out: str | os.PathLike[str] | BinaryIO,
        *,
        dtype: str = "auto",
        input_format: str = "auto",
        strip_bom: bool = False,
        workers: int | None = None,
        engine: str = "auto",
        chunk_bytes: int = CHUNK_BYTES,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> EncodeReport:
        """Encode files to a token file, streaming: memory does not grow with the input.

        The file holds the ids of each input, one after the other, as little-endian uint16 or uint32 without a header;
        `<out>.json` beside it says which, and by which tokenizer. Both appear when they are complete.

        Parameters
        ----------
        inputs : paths
            Files, globs, or `-` for standard input.
        out : path or binary stream
            A stream, a device, a pipe or `-` (standard output) receives the ids alone, without a description.
        dtype : str
            `uint16`, `uint32`, or `auto` for the smaller one that holds every id.
        input_format : str
            `auto` refuses inputs that are recognised as compressed or binary, or as text in UTF-16 or UTF-32; `text` takes the
            bytes of every input as they are.
        strip_bom : bool
            Whether a UTF-8 byte-order mark at the start of an input is left out. Otherwise it is encoded, so that decoding
            gives back every byte. The report names the inputs that have one.
        workers, engine
            How the work is spread (see `bpejit.engines`); never changes the result.
        chunk_bytes : int
            How much text a worker takes at a time; never changes the result.
        overwrite : bool
            Whether existing files are replaced. Without it they are an error, and one of the inputs always is.
        progress : callable, optional

        Raises
        ------
        CorpusError, TokenFileError, OutputError, EngineError
        """
        workers, engine, chunk_bytes = check_spread(workers, engine, chunk_bytes)
        return encode_files(
            self._encoder,
            inputs,
            out if hasattr(out, "write") else arguments.path("out", out, error=OutputError),
            dtype=arguments.choice("dtype", dtype, ("auto", *DTYPES), error=TokenFileError),
            workers=workers,
            engine=engine,
            chunk_bytes=chunk_bytes,
            overwrite=arguments.flag("overwrite", overwrite),
            contents=Contents(input_format, strip_bom=strip_bom),
            tell=arguments.function("progress", progress) or no_progress,
        )

    # ---- decoding ----------------------------------------------------------------------------------------------------

    def decode_bytes(self, ids: Iterable[int] | Array) -> bytes:
        """Return the bytes of ids.

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary.
        """
        return self._encoder.decode(ids if isinstance(ids, (np.ndarray, list)) else list(arguments.ids("ids", ids)))

    def decode(self, ids: Iterable[int] | Array, *, errors: str = "replace", skip_special_tokens: bool = False) -> str:
        """Return the text of ids, with or without special tokens.

        `errors` says what becomes of bytes that are not UTF-8, as in `bytes.decode`.
        """
        if errors != "replace":
            errors = arguments.error_handler("errors", errors)
        shown = self._encoder.without_special(arguments.ids("ids", ids)) if skip_special_tokens else ids
        return self.decode_bytes(shown).decode("utf-8", errors=errors)

    def stream_decoder(self, *, errors: str = "replace", skip_special_tokens: bool = False) -> StreamDecoder:
        """Return a decoder with `feed(ids)` and `finish()` that gives the text of ids as they come, in whole characters."""
        errors = arguments.error_handler("errors", errors)
        return StreamDecoder(self._encoder, errors=errors, skip_special_tokens=skip_special_tokens)

    def decode_stream(self, ids: Iterable[int], *, errors: str = "replace", skip_special_tokens: bool = False) -> Iterator[str]:
        """Return an iterator over the text of ids, which may come one by one from a model, as each character is certain."""
        decoder = self.stream_decoder(errors=errors, skip_special_tokens=skip_special_tokens)
        return decode_stream(decoder, arguments.ids("ids", ids))

    def decode_file(
        self,
        path: str | os.PathLike[str],
        out: str | os.PathLike[str] | BinaryIO,
        *,
        dtype: str | None = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Decode a token file to a file or an open binary stream, in little memory; return the number of bytes written.

        Parameters
        ----------
        path : path
            The token file, or `-` for ids from standard input, which need `dtype`.
        out : path or binary stream
            `-` is standard output.
        dtype : str, optional
            `uint16` or `uint32`; needed where the file has no description.
        overwrite : bool
            Whether an existing file is replaced. Without it that is an error, and `path` itself always is.
        progress : callable, optional

        Raises
        ------
        OutputError
            If the text cannot be written, or `out` exists.
        TokenFileError
            If the file is broken, or was written by another tokenizer.
        TokenIdError
            If it holds an id that the vocabulary does not have.
        """
        path = arguments.path("path", path, error=TokenFileError)
        if not hasattr(out, "write"):
            out = arguments.path("out", out, error=OutputError)
        dtype = None if dtype is None else arguments.choice("dtype", dtype, DTYPES, error=TokenFileError)
        overwrite = arguments.flag("overwrite", overwrite)
        tell = arguments.function("progress", progress) or no_progress
        return decode_file(self._encoder, path, out, dtype=dtype, overwrite=overwrite, tell=tell)

    # ---- other faces -------------------------------------------------------------------------------------------------

    def as_tiktoken(self, name: str = "bpejit") -> TiktokenEncoding:
        """Return this tokenizer with the methods of `tiktoken.Encoding`, for code that is written for it."""
        from bpejit.compat.tiktoken import Encoding

        return Encoding(self, arguments.string("name", name))

    def as_hf(self, **options: Any) -> HuggingFaceTokenizer:
        """Return this tokenizer with what training loops use of `transformers.PreTrainedTokenizerFast`.

        Parameters
        ----------
        options
            Those of `bpejit.compat.huggingface.HuggingFaceTokenizer`: `eos_token`, `pad_token`, `model_max_length` and so on.
        """
        from bpejit.compat.huggingface import HuggingFaceTokenizer

        return HuggingFaceTokenizer(self, **options)

    # ---- saving ------------------------------------------------------------------------------------------------------

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "bpejit",  # noqa: A002 - it is the word for it
        legacy_merges: bool = False,
        bos_token: str | None = None,
        eos_token: str | None = None,
        pad_token: str | None = None,
        model_max_length: int | None = None,
        chat_template: str | None = None,
        overwrite: bool = False,
    ) -> str | None:
        """Save the tokenizer, by default as a folder that is a Hugging Face tokenizer, with `bpejit.json` for what that format
        cannot say.

        Parameters
        ----------
        path : path
            A folder; for `tiktoken` a file, `NAME.tiktoken`.
        format : str
            `bpejit`; `hf`, the same, but refused where Hugging Face would give other ids; `tiktoken`, a rank file and the
            lines of Python that make a `tiktoken.Encoding` of it; `gpt2`, `vocab.json` and `merges.txt`.
        legacy_merges : bool
            Whether the merges in `tokenizer.json` are written as `"a b"`, for readers that know no pairs.
        bos_token, eos_token, pad_token, model_max_length, chat_template : optional
            Settings for `transformers`, in place of those of the tokenizer (see `train`); the tokens are special tokens that
            the tokenizer has. Only the formats with a `tokenizer_config.json` take them: not `tiktoken`.
        overwrite : bool
            Whether existing files of these names are replaced. Other files of a folder are never touched.

        Returns
        -------
        str, optional
            For `bpejit`: why other tools cannot read the folder, where they cannot.

        Raises
        ------
        TokenizerFormatError
            If the format cannot say what the tokenizer is, or its readers would give other ids.
        OutputError
            If a file cannot be written, or exists and `overwrite` is false. What was there is unchanged.
        """
        given = TokenizerConfig.checked(
            bos_token=bos_token,
            eos_token=eos_token,
            pad_token=pad_token,
            model_max_length=model_max_length,
            chat_template=chat_template,
        ).fields
        if given and format == "tiktoken":
            raise OptionError(
                f"{next(iter(given))} is given, and the format 'tiktoken' has no place for it; expected none: leave it out"
            )
        model = replace(self._model, config=replace(self._model.config, **given)) if given else self._model
        return save_model(
            model,
            arguments.path("path", path, error=OutputError),
            format=arguments.choice("format", format, FORMATS, error=TokenizerFormatError),
            legacy_merges=arguments.flag("legacy_merges", legacy_merges),
            overwrite=arguments.flag("overwrite", overwrite),
        )


@collector_paused()  # a tenth of the time
def load(
    path: str | os.PathLike[str],
    *,
    pattern: Pattern | None = None,
    special_tokens: Mapping[str, int] | Iterable[str] | None = None,
    unicode: str | None = None,
) -> Tokenizer:
    """Load a tokenizer.

    Parameters
    ----------
    path : path
        A folder that `Tokenizer.save` or `bpejit train` has written; Hugging Face's `tokenizer.json`; a rank file of tiktoken,
        `NAME.tiktoken`; Mistral's
        `tekken.json`; GPT-2's `vocab.json` with `merges.txt` beside it; a folder with one of these; or
        `hf:ORGANISATION/NAME` or `hf:ORGANISATION/NAME@REVISION` for a repository on the Hugging Face Hub.
    pattern : str or tuple of str, optional
        The split pattern, a preset's name or a regular expression, where the files do not say it. tiktoken's published
        files are known by name and content.
    special_tokens : dict of str to int, optional
        Text and id of each special token, where the files do not say them; for GPT-2's pair a list is enough.
    unicode : str, optional
        The version of Unicode by which the split pattern knows letters from other characters, such as "15.0". By default it
        is the one that bpejit's folder says, and for files of other tools that of tiktoken 0.14 and tokenizers 0.23, "16.0".

    Raises
    ------
    TokenizerFormatError
        If it is missing, broken, of no known format, or does not say what is needed.
    PatternError
        If `unicode` is not known, or newer than what the installed `regex` package has.

    Examples
    --------
    >>> tokenizer = bpejit.load("cl100k_base.tiktoken")  # doctest: +SKIP
    >>> tokenizer = bpejit.load("my.tiktoken", pattern="o200k", special_tokens={"<|end|>": 200_000})  # doctest: +SKIP
    """
    path = arguments.path("path", path, error=TokenizerFormatError)
    pattern = None if pattern is None else arguments.pattern("pattern", pattern)
    if special_tokens is not None:
        special_tokens = _checked_special_tokens(special_tokens)
    unicode = arguments.optional_string("unicode", unicode)
    return Tokenizer.from_model(load_model(path, pattern=pattern, special_tokens=special_tokens, unicode=unicode))


def _checked_special_tokens(given: Any) -> dict[str, int] | list[str]:
    if not isinstance(given, Mapping):
        return arguments.special_tokens("special_tokens", given)
    tokens = arguments.special_tokens("special_tokens", given.keys())
    return {token: arguments.whole_number(f"special_tokens[{shorten(token)}]", given[token], least=0) for token in tokens}


def _as_integers(ids: Array) -> Iterator[int]:
    for start in range(0, ids.size, ITERABLE_IDS):
        yield from ids[start : start + ITERABLE_IDS].tolist()
