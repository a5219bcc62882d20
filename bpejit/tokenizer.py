"""The `Tokenizer` class, and `load`, which reads tokenizers of all formats."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from bpejit import arguments
from bpejit.arguments import showing_progress
from bpejit.arrays import Array, EncodedBatch
from bpejit.corpus.reading_options import UNIT_BYTES, ReadingOptions
from bpejit.encoding.codec import Codec
from bpejit.encoding.decoder import StreamDecoder, decode_batch, decode_stream
from bpejit.encoding.encode_stream import join_pieces
from bpejit.encoding.special_token_policy import Segments, SpecialChoice, encode_segments, locate_segments
from bpejit.engines import Work, checked_work
from bpejit.errors import (
    ArgumentTypeError,
    OptionError,
    OutputError,
    TokenFileError,
    TokenIdError,
    TokenizerFormatError,
    UnsupportedError,
    shorten,
)
from bpejit.formats.any_format import load_model
from bpejit.jobs.job_options import OutputOptions
from bpejit.kernels.common.integer_lists import list_of
from bpejit.model import Model
from bpejit.options import AUTO, chosen, takes
from bpejit.packed_tokens import PackedMerges
from bpejit.process_memory import collector_paused
from bpejit.splitting import Pattern
from bpejit.splitting.text_limits import REGEX_TIMEOUT
from bpejit.tokenfiles import load_format
from bpejit.tokenizer_config import TokenizerConfig, TransformersSettings
from bpejit.utf8 import encode_utf8

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import Unpack

    from bpejit.compat.huggingface import HuggingFaceTokenizer
    from bpejit.compat.tiktoken import Encoding as TiktokenEncoding
    from bpejit.corpus.input_paths import Inputs
    from bpejit.encoding.cutting import TextPiece, Truncated
    from bpejit.encoding.decode_streams import DecodeStreams
    from bpejit.encoding.kernel_runner import AnySplitter
    from bpejit.encoding.offsets import TokenOffsets
    from bpejit.encoding.session import Canonical, Session
    from bpejit.inspection.token_rows import ShownText
    from bpejit.jobs.file_encoding import EncodeReport
    from bpejit.progress_bar import Progress
    from bpejit.tokenfiles.readers import TokenPaths

# Modules that loading a tokenizer does not need are imported where they are used: all of them take a tenth of a second.


_ONE = 1
"""The usual number of threads, an integer of which there is one in a process."""

_HINTS = {
    **dict.fromkeys(("n_vocab", "get_vocab_size"), "vocab_size"),
    **dict.fromkeys(("convert_tokens_to_ids", "apply_chat_template", "encode_plus", "batch_encode_plus"), "as_hf()"),
    "tokenize": "encode",
    "from_pretrained": "bpejit.load(PATH)",
    "get_vocab": "vocab",
    "save_pretrained": "save",
}
"""What to use instead of names of other libraries."""


class _Elsewhere(NamedTuple):
    """An attribute that does not exist; the error names what does.

    With a method `__getattr__` of the class, Python would look up each attribute of a tokenizer more slowly: encoding a short
    text took 5 % longer.
    """

    name: str

    def __get__(self, _instance: object, _owner: object) -> Any:
        raise AttributeError(f"a Tokenizer has no attribute {self.name!r}: use {_HINTS[self.name]}")


class EncodeOptions(OutputOptions, ReadingOptions, Work, total=False):
    """The options of `Tokenizer.encode_files` that have a declaration."""


class Tokenizer:
    """A byte-pair-encoding tokenizer: text to token ids and back.

    It is immutable, can be pickled, and may be used from several threads. It cannot be called: `tokenizer(text)` raises an
    error that names the methods to use, such as `encode`. The constructor loads all kernels and allocates all
    working memory; a tokenizer returned by `train` does so on first use. Tokenizers are equal if their `sha256` is.

    Parameters
    ----------
    vocab : dict of int to bytes
        Bytes of each token by id. It must contain all 256 single bytes.
    merges : list of (bytes, bytes)
        The pairs in the order in which they are merged.
    special_tokens : list of str, optional
        Tokens that are found in text before anything else; if several begin at the same position, the longest is taken.
        Tokens that are not in the vocabulary are appended to it.
    pattern : str or tuple of str
        The split pattern: the name of a preset (see `bpejit.splitting.PRESETS`), a regular expression, or a sequence of
        these, each of which splits the pieces of the previous one.
    unicode : str, optional
        The version of Unicode that defines the character properties of the pattern, such as "16.0". Defaults to the version
        of the installed `regex` package, and is stored with the tokenizer.

    Raises
    ------
    ArgumentTypeError
        If an argument has the wrong type.
    TokenizerFormatError
        If vocabulary and merges do not form a tokenizer.
    PatternError
        If the pattern does not compile.
    """

    _measured: Mapping[str, Any] = {}
    """What `training` has besides the fields of the model, if the tokenizer was trained in this process."""

    def __init__(
        self,
        vocab: dict[int, bytes],
        merges: list[tuple[bytes, bytes]],
        special_tokens: list[str] | None = None,
        *,
        pattern: Pattern = "gpt2",
        unicode: str | None = None,
    ) -> None:
        from bpejit.formats.gpt2 import model_from_vocab
        from bpejit.splitting.unicode_versions import installed_unicode

        unicode = arguments.optional_string("unicode", unicode) or installed_unicode()
        pattern = arguments.pattern("pattern", pattern)
        self._codec = Codec(model_from_vocab(vocab, merges, special_tokens, pattern=pattern, unicode=unicode))

    @classmethod
    def from_model(cls, model: Model, *, lazy: bool = False) -> Tokenizer:
        """Return a tokenizer of a model.

        Parameters
        ----------
        model : Model
        lazy : bool
            Build the encoder on first use. Useful for a tokenizer that may only be saved.
        """
        tokenizer = cls.__new__(cls)
        arguments.instance("model", model, Model, "give the `model` of a tokenizer, or use bpejit.load for files")
        tokenizer._codec = Codec(model, lazy=lazy)
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
        """Read `vocab.json` and `merges.txt`, the files of GPT-2.

        Parameters
        ----------
        vocab_filepath, merges_filepath : path
        special_tokens, pattern, unicode
            As for the constructor.

        Raises
        ------
        TokenizerFormatError
            If a file is missing or broken. The message names file and line.
        """
        from bpejit.formats.gpt2 import read_gpt2_pair
        from bpejit.splitting.unicode_versions import installed_unicode

        unicode = arguments.optional_string("unicode", unicode) or installed_unicode()
        pattern = arguments.pattern("pattern", pattern)
        vocab_path = arguments.path("vocab_filepath", vocab_filepath, error=TokenizerFormatError)
        merges_path = arguments.path("merges_filepath", merges_filepath, error=TokenizerFormatError)
        special_tokens = None if special_tokens is None else arguments.special_tokens("special_tokens", special_tokens)
        model = read_gpt2_pair(vocab_path, merges_path, special_tokens, pattern=pattern, unicode=unicode)
        return cls.from_model(model)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer.from_model, (self.model,)

    def __repr__(self) -> str:
        return f"<bpejit.Tokenizer: {self.vocab_size} tokens, pattern {self.pattern!r}>"

    def _repr_html_(self) -> str:
        from html import escape

        rows = {
            "tokens": f"{len(self):,}",
            "special tokens": shorten(list(self.special_tokens), 200),
            "pattern": shorten(self.pattern, 200),
            "sha256": self.sha256,
        }
        lines = "".join(f"<tr><th>{name}</th><td><code>{escape(value)}</code></td></tr>" for name, value in rows.items())
        return f"<table><caption>bpejit.Tokenizer</caption>{lines}</table>"

    def __eq__(self, other: object) -> bool:
        return self.sha256 == other.sha256 if isinstance(other, Tokenizer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.sha256)

    # ---- looking at tokens -------------------------------------------------------------------------------------------

    def show(self, text: str | bytes) -> ShownText:
        """Return the tokens of a text for display: in colors in a notebook, with separators elsewhere.

        Special tokens are found, as in `encode`. Control and bidirectional characters are shown as escapes.

        Parameters
        ----------
        text : str or bytes

        Examples
        --------
        >>> tokenizer.show("Hello, world")  # doctest: +SKIP
        Hello│,│ world
        """
        from bpejit.inspection.token_rows import ShownText, token_rows

        return ShownText(token_rows(self._codec, text))

    def plot_lengths(self, *, ax: Any = None) -> Axes:
        """Plot how many tokens have each number of bytes. Plots need matplotlib (`pip install 'bpejit[plot]'`).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default the axes of a new figure, which a notebook shows. In a script, pyplot shows the figures
            that were made after it was imported.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        UnsupportedError
            If matplotlib is not installed.

        Examples
        --------
        >>> tokenizer.plot_lengths().figure.savefig("lengths.svg")  # doctest: +SKIP
        """
        from bpejit.inspection.plots import plot_lengths

        return plot_lengths(self.model, ax)

    def plot_frequencies(self, inputs: Inputs, *, ax: Any = None) -> Axes:
        """Plot the frequency of the tokens of a text against their rank by frequency.

        Parameters
        ----------
        inputs : paths
            As for `encode_files`.
        ax : matplotlib Axes, optional
            As for `plot_lengths`.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        CorpusError, UnsupportedError
        """
        from bpejit.inspection.plots import plot_frequencies

        return plot_frequencies(self._codec, inputs, ax)

    def plot_compression(self, inputs: Inputs, *, ax: Any = None) -> Axes:
        """Plot the bytes per token of a text against the size of the vocabulary, for all prefixes of the list of merges.

        Parameters
        ----------
        inputs : paths
            As for `encode_files`. The text is encoded once.
        ax : matplotlib Axes, optional
            As for `plot_lengths`.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        CorpusError, UnsupportedError
        """
        from bpejit.inspection.plots import plot_compression

        return plot_compression(self._codec, inputs, ax)

    # ---- vocabulary --------------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The model: tokens, merges and settings as immutable data."""
        return self._codec.model

    @property
    def training(self) -> dict[str, Any]:
        """What is known about the training: inputs, amounts of text and options; empty for files of other tools.

        The tokenizer that a training returns also has the number of `tokens` of the text, without special tokens, its
        `bytes_per_token`, and the `peak_memory` of the process until then, in bytes. They are not saved.
        """
        return {**self.model.training, **self._measured}

    @property
    def vocab(self) -> Mapping[int, bytes]:
        """Bytes of each token by id, special tokens included. Read-only."""
        return self.model.vocab

    @property
    def merges(self) -> Sequence[tuple[bytes, bytes]]:
        """The pairs in the order in which they are merged. Read-only; empty for a ranked model."""
        merges = self.model.merges
        return merges.pairs if isinstance(merges, PackedMerges) else merges

    if not TYPE_CHECKING:
        vars().update((name, _Elsewhere(name)) for name in _HINTS)

        def __dir__(self) -> list[str]:
            return [name for name in super().__dir__() if name not in _HINTS]

        def __call__(self, *_texts: Any, **_options: Any) -> Any:
            """Raise an error that names the methods to use."""
            raise ArgumentTypeError(
                "a Tokenizer was called; expected a method: use `encode(text)` for ids, `encode_batch(texts)` for those of "
                "several texts, or `as_hf()(text)` for what the tokenizers of transformers return"
            )

    @property
    def vocab_size(self) -> int:
        """One more than the largest id. It is larger than `len(tokenizer)` if ids have gaps."""
        return self.model.vocab_size

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """Id of each special token. Read-only."""
        return self.model.special_tokens

    @property
    def pattern(self) -> Pattern:
        """Name or regular expression of the split pattern; a tuple if it is a sequence."""
        return self.model.pattern

    @property
    def sha256(self) -> str:
        """SHA-256 of everything that determines ids. Token files contain it."""
        return self.model.sha256

    def __len__(self) -> int:
        """Return the number of tokens, special tokens included (see `vocab_size`)."""
        return self.model.n_tokens

    def __contains__(self, token: object) -> bool:
        """Return True if the vocabulary has a token (see `token_to_id`)."""
        return isinstance(token, (str, bytes)) and self.token_to_id(token) is not None

    def token_to_id(self, token: str | bytes) -> int | None:
        """Return the id of a token, or None if the vocabulary does not have it.

        Parameters
        ----------
        token : str or bytes
            The text or the bytes of one token, ordinary or special. If both kinds have it, the special token is meant, as in
            `encode`.

        Examples
        --------
        >>> tokenizer.token_to_id("<|endoftext|>")  # doctest: +SKIP
        50256
        """
        model = self.model
        if isinstance(token, str):
            found = model.special_tokens.get(token)
            if found is not None:
                return found
            data = encode_utf8(token)
        else:
            data = token if isinstance(token, bytes) else bytes(arguments.as_bytes("token", token))  # type: ignore[arg-type]
        found = model.special_ids.get(data)
        if found is None:
            found = model.ids.get(data)
        return found if found is not None else next((i for i, other in model.unused_tokens.items() if other == data), None)

    def id_to_token(self, id: int) -> bytes:  # noqa: A002 - the term of this field
        """Return the bytes of the token with an id.

        Parameters
        ----------
        id : int
            The id of an ordinary or a special token.

        Raises
        ------
        TokenIdError
            If the vocabulary has no token with this id.
        """
        token_id = id if type(id) is int else arguments.whole_number("id", id)
        found = self.model.bytes_of(token_id)
        if found is None:
            raise TokenIdError(
                f"id is {shorten(token_id)}, which the vocabulary does not have; expected the id of a token, less than "
                f"{self.vocab_size}: use the tokenizer that produced the id"
            )
        return found

    def with_special_tokens(self, special_tokens: Iterable[str]) -> Tokenizer:
        """Return a new tokenizer with additional special tokens.

        New tokens are numbered from `vocab_size` on, in the order given. Tokens that are special already are ignored. An
        ordinary token becomes special as well, and retains its id. All other ids are unchanged.

        Parameters
        ----------
        special_tokens : list of str

        Raises
        ------
        OptionError, ArgumentTypeError
            If a token is empty or is not a str.
        TokenizerFormatError
            If a token contains a lone surrogate, or the ids become too large.

        Examples
        --------
        >>> tokenizer = tokenizer.with_special_tokens(["<|user|>", "<|assistant|>"])  # doctest: +SKIP
        """
        model = self.model.with_special_tokens(special_tokens)
        return self if model is self.model else Tokenizer.from_model(model)

    def shrink(self, vocab_size: int) -> Tokenizer:
        """Return a new tokenizer with fewer tokens: those of the first merges.

        For a trained tokenizer, the result is that of training with this size. The tokens that remain keep their order, and are
        numbered from 0, so special tokens after the ordinary ones get lower ids.

        Parameters
        ----------
        vocab_size : int
            Number of tokens, including the single bytes and the special tokens.

        Raises
        ------
        TokenizerFormatError
            If the size is out of range, or merges do not make all tokens.
        """
        from bpejit.shrinking import shrink_model

        return Tokenizer.from_model(shrink_model(self.model, vocab_size))

    # ---- encoding ----------------------------------------------------------------------------------------------------

    def encode(
        self,
        text: str | bytes,
        *,
        allowed_special: SpecialChoice | None = None,
        disallowed_special: SpecialChoice | None = None,
    ) -> list[int]:
        """Return the ids of a text as a list. For long texts, `encode_array` is faster.

        Parameters
        ----------
        text : str or bytes
        allowed_special, disallowed_special : "all" or a set of special tokens, optional
            By default, all special tokens are found. If either is given, both have the meaning of tiktoken: tokens of
            `allowed_special` (default: none) are found; a token of `disallowed_special` (default: all others) in the text is
            an error; all other special tokens are encoded as ordinary text.

        Raises
        ------
        SpecialTokenError
            If the text contains a disallowed special token.
        """
        codec = self._codec
        if allowed_special is None and disallowed_special is None:
            ids = codec.encode_short(text)
            if ids is not None:
                return ids
        return codec.encode_list(text, allowed_special, disallowed_special)

    def encode_array(
        self,
        text: str | bytes,
        *,
        num_threads: int = 1,
        allowed_special: SpecialChoice | None = None,
        disallowed_special: SpecialChoice | None = None,
    ) -> Array:
        """Return the ids of a text as a uint32 array.

        Parameters
        ----------
        text : str or bytes
        num_threads : int
            Number of threads; the ids are equal for every number. Texts below a few megabytes use fewer. One thread encodes a
            text that cannot be divided: with a pattern that runs through the `regex` package, or where steps change the text.
        allowed_special, disallowed_special : "all" or a set of special tokens, optional
            As in `encode`.
        """
        codec = self._codec
        if num_threads is _ONE:  # for a short text, a call of `type` takes a tenth of the time of encoding
            if allowed_special is None and disallowed_special is None:
                ids = codec.encode_short_array(text)
                if ids is not None:
                    return ids
            return codec.encode(text, allowed_special, disallowed_special)
        num_threads = arguments.whole_number("num_threads", num_threads, least=1)
        return codec.encode_long(text, num_threads, allowed_special, disallowed_special)

    def encode_ordinary(self, text: str | bytes) -> list[int]:
        """Return the ids of a text without looking for special tokens."""
        codec = self._codec
        ids = codec.encode_short_ordinary(text)
        return codec.encode_list(text, None, ()) if ids is None else ids

    def encode_batch(
        self,
        texts: Iterable[str | bytes],
        *,
        num_threads: int = 1,
        allowed_special: SpecialChoice | None = None,
        disallowed_special: SpecialChoice | None = None,
    ) -> EncodedBatch:
        """Return the ids of several texts in one array, with the start of each text.

        Parameters
        ----------
        texts : iterable of str or bytes
        num_threads : int
            Number of threads. Batches below a few megabytes use fewer. All of them encode a text of several megabytes.
        allowed_special, disallowed_special : "all" or a set of special tokens, optional
            As in `encode`.
        """
        num_threads = arguments.whole_number("num_threads", num_threads, least=1)
        return self._codec.encode_batch(texts, num_threads, allowed_special, disallowed_special)

    def count(
        self,
        text: str | bytes,
        *,
        allowed_special: SpecialChoice | None = None,
        disallowed_special: SpecialChoice | None = None,
    ) -> int:
        """Return the number of ids of a text, without keeping them. The options are the same as for `encode`.

        Examples
        --------
        >>> tokenizer.count("Hello, world")  # doctest: +SKIP
        3
        """
        ids = None
        if allowed_special is None and disallowed_special is None:
            ids = self._codec.encode_short(text)
        return self._codec.count(text, allowed_special, disallowed_special) if ids is None else len(ids)

    def count_batch(
        self,
        texts: Iterable[str | bytes],
        *,
        num_threads: int = 1,
        allowed_special: SpecialChoice | None = None,
        disallowed_special: SpecialChoice | None = None,
    ) -> Array:
        """Return the number of ids of each of several texts, as int64 [texts]. The options are those of `encode_batch`.

        Memory does not grow with the number of ids.
        """
        num_threads = arguments.whole_number("num_threads", num_threads, least=1)
        return self._codec.count_batch(texts, num_threads, allowed_special, disallowed_special)

    def fits(
        self,
        text: str | bytes,
        n: int,
        *,
        allowed_special: SpecialChoice | None = None,
        disallowed_special: SpecialChoice | None = None,
    ) -> bool:
        """Return True if a text has at most `n` ids. The options are the same as for `encode`.

        Only as much of the text is encoded as is needed.
        """
        from bpejit.encoding.cutting import fits

        data, splitter = self._text_and_splitter(text, allowed_special, disallowed_special)
        return fits(self._codec, data, arguments.whole_number("n", n, least=0), splitter)

    def truncate(
        self,
        text: str | bytes,
        n: int,
        *,
        side: str = "right",
        allowed_special: SpecialChoice | None = None,
        disallowed_special: SpecialChoice | None = None,
    ) -> Truncated:
        """Return the beginning of a text that has at most `n` ids, or its end. The options are the same as for `encode`.

        A text that fits is returned as it is. Of a longer one, only as much is encoded as is needed.

        Parameters
        ----------
        text : str or bytes
        n : int
        side : str
            Where text is removed: "right" or "left".

        Returns
        -------
        Truncated
            `ids`, the longest prefix (suffix) of the ids of the text with these properties: it has at most `n` ids, it ends
            (begins) between two characters, and its decoding has at most `n` ids, if it is encoded in turn. `text`, this
            decoding, of the type of the text; bytes that are not UTF-8 count as characters. `was_cut`, whether ids are missing.

        Raises
        ------
        OptionError
            If `n` is negative, or `side` is unknown.

        Examples
        --------
        >>> tokenizer.truncate("Hello, world", 2)  # doctest: +SKIP
        Truncated(ids=[15496, 11], text='Hello,', was_cut=True)
        """
        from bpejit.encoding.cutting import truncate

        n = arguments.whole_number("n", n, least=0)
        side = arguments.choice("side", side, ("right", "left"))
        data, splitter = self._text_and_splitter(text, allowed_special, disallowed_special)
        return truncate(self._codec, data, n, side, splitter)

    def chunk(
        self,
        text: str,
        *,
        max_tokens: int,
        overlap: int = 0,
        at: str = "line",
        allowed_special: SpecialChoice | None = None,
        disallowed_special: SpecialChoice | None = None,
    ) -> list[TextPiece]:
        r"""Divide a text into pieces with a limited number of tokens. The options are the same as for `encode`.

        Parameters
        ----------
        text : str
        max_tokens : int
            A piece has as many units as have at most this number of tokens together. A unit with more is cut at characters.
        overlap : int
            The piece after it begins with as many of the last of these units as have at most this number of tokens together,
            and leave room for one more.
        at : str
            The units: "line", each with its newline; "paragraph", each with the empty lines after it; or "pretoken".

        Returns
        -------
        list of TextPiece
            Each with its `text`, the number of characters of its `overlap`, and its number of `tokens`. Without the overlaps,
            the texts concatenated are the text.

        Raises
        ------
        OptionError
            If `max_tokens` is less than the tokens of a character that must be cut off, `overlap` is not less than it, or `at`
            is unknown.

        Examples
        --------
        >>> tokenizer.chunk("One.\nTwo.\n", max_tokens=3)  # doctest: +SKIP
        [TextPiece(text='One.\n', overlap=0, tokens=3), TextPiece(text='Two.\n', overlap=0, tokens=3)]
        """
        from bpejit.encoding.cutting import UNITS, chunk

        max_tokens = arguments.whole_number("max_tokens", max_tokens, least=1)
        overlap = arguments.whole_number("overlap", overlap, least=0)
        if overlap >= max_tokens:
            raise OptionError(f"overlap is {overlap}; expected less than max_tokens, {max_tokens}: give a smaller one")
        at = arguments.choice("at", at, UNITS)
        text = arguments.string("text", text)
        splitter = self._codec.chosen_splitter([text], (allowed_special, disallowed_special))
        return chunk(self._codec, text, max_tokens, overlap, at, splitter)

    def _text_and_splitter(self, text: str | bytes, *special: SpecialChoice | None) -> tuple[str | bytes, AnySplitter]:
        data = text if isinstance(text, str) else bytes(arguments.as_bytes("text", text))  # type: ignore[arg-type]
        return data, self._codec.chosen_splitter([data], special)

    def encode_segments(self, segments: Segments) -> list[int]:
        """Return the ids of a text of trusted and untrusted segments. Special tokens are found in trusted segments only.

        Use it for chat templates. Untrusted segments never produce a special token, neither alone nor together with their
        neighbors. Ordinary text merges across segment boundaries, so the ids are the same as `encode` returns for the
        concatenated text, provided that text contains no other special tokens.

        Parameters
        ----------
        segments : iterable of (str or bytes, bool)
            The text of each segment, and whether it is trusted.

        Raises
        ------
        ArgumentTypeError
            If a segment is not a pair of a text and a bool.

        Examples
        --------
        >>> tokenizer.encode_segments([("<|user|>", True), (question, False), ("<|end|>", True)])  # doctest: +SKIP
        """
        with self._codec.workspace() as workspace:
            ids: list[int] = encode_segments(self._codec.encoder, segments, workspace).tolist()
        return ids

    def encode_with_offsets(
        self,
        text: str | bytes,
        *,
        allowed_special: SpecialChoice | None = None,
        disallowed_special: SpecialChoice | None = None,
    ) -> TokenOffsets:
        """Return the ids of a text and the position of each token. The options are the same as for `encode`.

        Positions refer to the text as given, even if the model normalizes it.
        """
        return self._codec.locate(text, allowed_special, disallowed_special)[0]

    def encode_segments_with_offsets(self, segments: Segments) -> tuple[TokenOffsets, Array]:
        """Return the ids of `encode_segments`, their positions in the whole text, and the segment each token starts in."""
        with self._codec.workspace() as workspace:
            return locate_segments(self._codec.encoder, segments, workspace)

    def session(self, text: str | bytes = "") -> Session:
        """Return a session: a text and its ids, of which only what a change can affect is encoded again.

        Use it for conversations, editors, and prefixes that many texts share. All special tokens are found, as in `encode`.

        Parameters
        ----------
        text : str or bytes
            Positions in the session are counted in characters of a str, or in bytes, of which a character may lack the last
            ones until the next call of `append`. A session of bytes takes str as well.

        Returns
        -------
        Session
            With `append`, `edit`, `fork`, `ids`, `text` and `stable_prefix`.

        Raises
        ------
        ArgumentTypeError, OptionError, CorpusError

        Examples
        --------
        >>> session = tokenizer.session("Hello, wor")  # doctest: +SKIP
        >>> session.append("ld")  # doctest: +SKIP
        Appended(kept=2, ids=array([995], dtype=uint32))
        """
        from bpejit.encoding.session import Session

        return Session(self._codec, text)

    def session_from_ids(self, ids: Iterable[int] | Array) -> Session:
        """Return a session that keeps ids, such as those that a model has sampled, and encodes only what is added.

        Its text is that of `decode_bytes`, so positions are in bytes, and text that is added does not merge with it.

        Parameters
        ----------
        ids : list of int, or array of integers

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary.
        UnsupportedError
            If the tokenizer inserts a space before a text, or strips white space around special tokens: text that is added
            could then not be encoded without the text before it.

        Examples
        --------
        >>> session = tokenizer.session_from_ids([15496, 11])  # doctest: +SKIP
        """
        from bpejit.encoding.session import session_from_ids

        return session_from_ids(self._codec, ids)

    def is_canonical(self, ids: Iterable[int] | Array) -> Canonical:
        """Return whether ids are those of the text that they decode to, which sampled ids need not be.

        The result is true or false as such, and its `first_violation` is the index of the first id that differs.

        Parameters
        ----------
        ids : list of int, or array of integers

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary.

        Examples
        --------
        >>> tokenizer.is_canonical([39, 68, 297, 78])  # doctest: +SKIP
        Canonical(first_violation=0)
        """
        from bpejit.encoding.session import find_violation

        return find_violation(self._codec, ids)

    def encode_iterable(self, iterable: Iterable[str]) -> Iterator[int]:
        """Return an iterator over the ids of concatenated pieces of text, such as the lines of a file.

        The ids do not depend on how the text is divided into pieces, and memory does not grow with it. The exception is a
        pattern that runs through the `regex` package: its text is held in memory up to the next special token.

        Pieces are read when their ids are needed, and up to 16,384 characters ahead (65,536 of a list or tuple), because many
        short pieces are encoded in one step. If reading a piece fails, the ids of the text before it are returned first, except
        for those that more text could change.
        """
        blocks, watch = self._encode_pieces(arguments.texts("iterable", iterable)), self._codec.carriage_returns
        return chain.from_iterable(map(list_of, blocks if watch is None else watch.checked(blocks)))

    def _encode_pieces(self, pieces: Iterable[str]) -> Iterator[Array]:
        with self._codec.workspace() as workspace:
            stream = self._codec.encoder.stream(workspace)
            for text in join_pieces(pieces, "iterable"):
                yield from stream.blocks(text)
            yield from stream.blocks("", final=True)

    @takes(EncodeOptions)
    def encode_files(
        self,
        inputs: Inputs,
        out: str | os.PathLike[str] | BinaryIO | None = None,
        *,
        out_dir: str | os.PathLike[str] | None = None,
        dtype: str = "auto",
        format: str = AUTO,  # noqa: A002 - the usual word
        strip_bom: bool = False,
        unit_bytes: int = UNIT_BYTES,
        shard: str | tuple[int, int] | None = None,
        resume: bool = False,
        dry_run: bool = False,
        overwrite: bool = False,
        **options: Unpack[EncodeOptions],
    ) -> EncodeReport:
        """Encode files to token files. Memory does not grow with the input.

        The result contains the ids of all inputs in order. It does not depend on the number of workers, and appears when it is
        complete, with `<out>.manifest.json`, which describes the job. A killed run keeps its finished units in a hidden folder
        beside the output, and `resume=True` continues from there.

        Parameters
        ----------
        inputs : paths
            As for `bpejit.train`: files, folders, globs, URLs, `-` for standard input, or an iterator of texts.
        out : path or binary stream
            A stream, a device, a pipe or `-` (standard output) receives the ids alone, without a description.
        out_dir : path, optional
            A folder for one output per input, instead of `out`. It gets the subfolders of the inputs.
        dtype : str
            A data type of the format, or `auto` for the smallest that can hold every id.
        format : str
            Name of a registered format of token files (see `bpejit.tokenfiles`), or `auto` for the one with the suffix of
            `out`, and `bin` for other suffixes and folders.
        strip_bom : bool
            Whether to skip a UTF-8 byte-order mark at the start of an input. By default it is encoded, so that decoding returns
            every byte. The report names the inputs that have one.
        unit_bytes : int
            Amount of text after which the job can be resumed, and the granularity of its division into parts.
        shard : str, optional
            I/N, with I from 0 to N - 1: encode only this part of the input, and join the parts when the last one is complete
            (see `bpejit.combine`). `auto` reads I and N from the variables of Slurm's job arrays, or `RANK` and `WORLD_SIZE`.
        resume : bool
            Whether to continue an earlier run of the same job. The result equals that of an uninterrupted run. If the output is
            complete, nothing is done.
        dry_run : bool
            Whether to plan the job only. The report then has its units and their size, and `tokens` and `seconds` are estimates
            from a sample.
        overwrite : bool
            Whether to replace existing files. An output that is also an input is always an error.
        {options}

        Raises
        ------
        CorpusError, TokenFileError, OutputError, EngineError, OptionError, SpecialTokenError
        """
        from bpejit.corpus.contents import Contents
        from bpejit.jobs.file_encoding import encode_files
        from bpejit.jobs.job_options import check_job_options, check_token
        from bpejit.tokenfiles import output_format

        passed = locals() | options
        work = checked_work(options)
        job_options = check_job_options(
            passed,
            per_input=out_dir is not None,
            append=check_token("append_token", options["append_token"], self.special_tokens),
            prepend=check_token("prepend_token", options["prepend_token"], self.special_tokens),
        )
        if (out is None) == (out_dir is None):
            given = "both" if out is not None else "neither"
            raise OptionError(
                f"{given} of out and out_dir are given; expected one of them: give `out=` for one output, or `out_dir=` for "
                "one per input"
            )
        format = output_format(out, format)  # noqa: A001
        name, target = ("out", out) if out_dir is None else ("out_dir", out_dir)
        return encode_files(
            self._codec.encoder,
            inputs,
            target if hasattr(target, "write") else arguments.path(name, target, error=OutputError),  # type: ignore[arg-type]
            job_options,
            dtype=arguments.choice("dtype", dtype, ("auto", *load_format(format).dtypes), error=TokenFileError),
            format=format,
            contents=Contents(strip_bom=strip_bom, keep_columns=options["keep_columns"], **chosen(ReadingOptions, options)),
            dry_run=arguments.flag("dry_run", dry_run),
            work=work,
        )

    # ---- decoding ----------------------------------------------------------------------------------------------------

    def decode_bytes(self, ids: Iterable[int] | Array) -> bytes:
        """Return the bytes of ids.

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary.
        """
        return self._codec.decode_bytes(ids)

    def decode(self, ids: Iterable[int] | Array, *, errors: str = "replace", skip_special_tokens: bool = False) -> str:
        """Return the text of ids.

        Parameters
        ----------
        ids : list of int, or array of integers
        errors : str
            How to handle bytes that are not UTF-8, as in `bytes.decode`.
        skip_special_tokens : bool
            Whether to leave special tokens out.

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary.
        UnicodeDecodeError
            If the bytes are not UTF-8, and `errors` is "strict".
        """
        if type(skip_special_tokens) is not bool:
            skip_special_tokens = arguments.flag("skip_special_tokens", skip_special_tokens)
        return self._codec.decode(ids, errors=errors, skip_special_tokens=skip_special_tokens)

    def decode_batch(
        self,
        batch: Iterable[Iterable[int] | Array] | EncodedBatch,
        *,
        errors: str = "replace",
        skip_special_tokens: bool = False,
    ) -> list[str]:
        """Return the text of each of several sequences of ids. The options are the same as for `decode`.

        Parameters
        ----------
        batch : list of lists of int, list of arrays, or EncodedBatch
            The result of `encode_batch`, or any other sequences of ids.

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary. The message names the sequence and the position.
        """
        errors = arguments.error_handler("errors", errors)
        skip_special_tokens = arguments.flag("skip_special_tokens", skip_special_tokens)
        return decode_batch(self._codec.encoder, batch, errors=errors, skip_special_tokens=skip_special_tokens)

    def stream_decoder(self, *, errors: str = "replace", skip_special_tokens: bool = False) -> StreamDecoder:
        """Return a decoder whose methods `feed(ids)` and `finish()` return text incrementally, in whole characters."""
        errors = arguments.error_handler("errors", errors)
        skip_special_tokens = arguments.flag("skip_special_tokens", skip_special_tokens)
        return StreamDecoder(self._codec.encoder, errors=errors, skip_special_tokens=skip_special_tokens)

    def decode_stream(self, ids: Iterable[int], *, errors: str = "replace", skip_special_tokens: bool = False) -> Iterator[str]:
        """Return an iterator over the text of a stream of ids, such as the output of a model, in whole characters."""
        decoder = self.stream_decoder(errors=errors, skip_special_tokens=skip_special_tokens)
        return decode_stream(decoder, arguments.ids("ids", ids))

    def decode_streams(
        self,
        n: int,
        *,
        stop: Iterable[str] = (),
        errors: str = "replace",
        skip_special_tokens: bool = False,
    ) -> DecodeStreams:
        """Return a decoder of `n` streams at once, to which each step adds one id of each.

        Parameters
        ----------
        n : int
            Number of streams, from 1 to 1,048,576.
        stop : list of str
            Strings that end a stream; its text is cut before them.
        errors, skip_special_tokens
            As for `decode`.

        Returns
        -------
        DecodeStreams
            With `push(ids)`, `finish(index)`, `reset(index)` and `ended`.

        Raises
        ------
        OptionError
            If a stop string is empty.
        """
        from bpejit.encoding.decode_streams import DecodeStreams

        texts = [arguments.string("stop", text) for text in arguments.texts("stop", stop)]
        if "" in texts:
            raise OptionError("stop has an empty string; expected at least one character: remove it")
        return DecodeStreams(
            self._codec.encoder,
            arguments.whole_number("n", n, least=1, most=1 << 20),
            stop=texts,
            errors=arguments.error_handler("errors", errors),
            skip_special_tokens=arguments.flag("skip_special_tokens", skip_special_tokens),
        )

    @showing_progress
    def decode_file(
        self,
        path: TokenPaths,
        out: str | os.PathLike[str] | BinaryIO,
        *,
        dtype: str | None = None,
        format: str = AUTO,  # noqa: A002
        overwrite: bool = False,
        progress: Progress | bool | None = None,
    ) -> int:
        """Decode token files to a file or a binary stream, and return the number of bytes written.

        Parameters
        ----------
        path : path, or list of paths
            The token files, as for `open_tokens`, or `-` for standard input, which requires `dtype`.
        out : path or binary stream
            `-` is standard output.
        dtype : str, optional
            `uint16` or `uint32`. Required if the file has no description.
        format : str
            Name of a registered format of token files, or `auto` for the one that recognizes the file.
        overwrite : bool
            Whether to replace an existing file. It is always an error if `out` is the token file itself.
        progress : callable or bool, optional
            As for `bpejit.train`.

        Raises
        ------
        OutputError
            If the text cannot be written, or `out` exists.
        TokenFileError
            If the file is broken, or was written by another tokenizer.
        TokenIdError
            If the file contains an id that is not in the vocabulary.
        """
        from bpejit.encoding.file_decoding import decode_file

        if not hasattr(out, "write"):
            out = arguments.path("out", out, error=OutputError)
        overwrite = arguments.flag("overwrite", overwrite)
        report = arguments.progress(progress)
        return decode_file(self._codec.decoder, path, out, dtype=dtype, format=format, overwrite=overwrite, report=report)

    # ---- interfaces --------------------------------------------------------------------------------------------------

    def as_tiktoken(self, name: str = "bpejit") -> TiktokenEncoding:
        """Return an object with the interface of `tiktoken.Encoding`."""
        from bpejit.compat.tiktoken import Encoding

        return Encoding(self._codec, arguments.string("name", name))

    def as_hf(self, **options: Any) -> HuggingFaceTokenizer:
        """Return an object with the main part of the interface of `transformers.PreTrainedTokenizerFast`.

        Parameters
        ----------
        **options
            Options of `bpejit.compat.huggingface.HuggingFaceTokenizer`, such as `eos_token`, `pad_token` and
            `model_max_length`.
        """
        from bpejit.compat.huggingface import HuggingFaceTokenizer

        return HuggingFaceTokenizer(self._codec, **options)

    def as_llguidance(self, *, eos_token: str | None = None, **options: Any) -> Any:
        """Return a tokenizer for llguidance, for constrained decoding by grammars and JSON schemas.

        Its ids are those of this tokenizer, without special tokens in text, and without a space that would be inserted at the
        start of a text. It needs the package llguidance, and nothing else.

        Parameters
        ----------
        eos_token : str, optional
            The special token that ends a text; by default that of the tokenizer's settings, or `<|endoftext|>`.
        **options
            Options of its class, such as `n_vocab` and `slices`.

        Raises
        ------
        SpecialTokenError
            If the end of a text is not known, or not a special token.
        UnsupportedError
            If llguidance is not installed, or the text of ids is not the bytes of their tokens.
        """
        from bpejit.compat.grammars import GrammarTokenizer
        from bpejit.extras import import_extra

        llguidance = import_extra("llguidance", "the tokenizer of llguidance", extra="", error=UnsupportedError)
        tokenizer = GrammarTokenizer(self._codec, eos_token=arguments.optional_string("eos_token", eos_token))
        return llguidance.LLTokenizer(llguidance.TokenizerWrapper(tokenizer), **options)

    def token_bytes(self, *, special_mark: bytes = b"") -> list[bytes]:
        r"""Return the bytes that each id is decoded to, for engines that walk through the vocabulary.

        Parameters
        ----------
        special_mark : bytes
            Put before the text of each special token, and of each added token in angle brackets. With `b"\xff"`, which
            UTF-8 does not have, no text becomes one.

        Returns
        -------
        list of bytes [vocabulary size]
            Ids that are not used are empty.

        Raises
        ------
        UnsupportedError
            If tokens end words by a suffix such as `</w>`, so that bytes depend on the token after them.

        Examples
        --------
        >>> import bpejit
        >>> tokenizer = bpejit.Tokenizer({**{n: bytes([n]) for n in range(256)}, 256: b"<end>"}, [], ["<end>"])
        >>> tokenizer.token_bytes(special_mark=b"\xff")[255:]
        [b'\xff', b'\xff<end>']
        """
        from bpejit.compat.grammars import bytes_of_ids

        return bytes_of_ids(self._codec, special_mark=arguments.instance("special_mark", special_mark, bytes, "give bytes"))

    # ---- saving ------------------------------------------------------------------------------------------------------

    @takes(TransformersSettings)
    def save(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = AUTO,  # noqa: A002 - the usual name for it
        legacy_merges: bool = False,
        overwrite: bool = False,
        **settings: Unpack[TransformersSettings],
    ) -> str | None:
        """Save the tokenizer.

        The default format is a folder that Hugging Face's libraries read, plus `bpejit.json` for everything their format
        cannot express.

        Parameters
        ----------
        path : path
            A folder, or a file `NAME.tiktoken` for the format `tiktoken`; also a URL such as `s3://bucket/tokenizer`.
        format : str
            `bpejit`; `hf`, the same, but an error if Hugging Face's libraries would return other ids; `tiktoken`, a rank file
            and a Python module that loads it as a `tiktoken.Encoding`; `gpt2`, `vocab.json` and `merges.txt`. By default
            `tiktoken` for a path that ends with `.tiktoken`, and `bpejit` for others.
        legacy_merges : bool
            Whether to write the merges in `tokenizer.json` as `"a b"`, for readers that do not support pairs.
        bos_token, eos_token, pad_token, model_max_length, chat_template : optional
            Settings for `transformers` that replace those of the tokenizer (see `train`). The tokens must be special tokens
            of the tokenizer. Formats without a `tokenizer_config.json` (`tiktoken`) do not support these settings.
        overwrite : bool
            Whether to replace existing files with these names. Other files in a folder are never touched.

        Returns
        -------
        str, optional
            For `bpejit`: the reason why other tools cannot read the folder, or None if they can.

        Raises
        ------
        TokenizerFormatError
            If the format cannot express the tokenizer, or other tools would return other ids.
        OutputError
            If a file cannot be written, or exists and `overwrite` is False. Existing files are then unchanged.
        """
        from bpejit.formats.any_format import chosen_format, save_model

        given = TokenizerConfig.checked(**settings).fields
        path = arguments.path("path", path, error=OutputError)
        format = chosen_format(path, format)  # noqa: A001 - the parameter
        if given and isinstance(format, str) and format == "tiktoken":
            raise OptionError(
                f"{next(iter(given))} is given, which the format 'tiktoken' cannot store; expected none: leave it out"
            )
        model = self.model
        if given:
            model = replace(model, config=replace(model.config, **given))
        return save_model(
            model,
            path,
            format=format,
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
    regex_timeout: float | None = REGEX_TIMEOUT,
) -> Tokenizer:
    """Load a tokenizer.

    Parameters
    ----------
    path : path
        A folder written by `Tokenizer.save` or `bpejit train`; Hugging Face's `tokenizer.json`; a rank file of tiktoken,
        `NAME.tiktoken`; Mistral's `tekken.json`; GPT-2's `vocab.json` with `merges.txt` beside it; a folder with one of these;
        or `hf:ORGANIZATION/NAME` or `hf:ORGANIZATION/NAME@REVISION` for a repository on the Hugging Face Hub. In a folder,
        tokens and settings beside `tokenizer.json` and `vocab.json` are read too, as `transformers.AutoTokenizer` 4.57 does.
    pattern : str or tuple of str, optional
        The split pattern, a preset's name or a regular expression, if the files do not contain it. tiktoken's published files
        are recognized by name and content, or by content alone, with a `BpejitWarning`.
    special_tokens : dict of str to int, optional
        Id of each special token, if the files do not contain them. For GPT-2's files a list is enough.
    unicode : str, optional
        The version of Unicode that defines the character properties of the split pattern, such as "15.0". Defaults to the
        version stored in bpejit's folder, and for files of other tools to the version of tiktoken 0.14 and tokenizers 0.23,
        "16.0".
    regex_timeout : float, optional
        Seconds of processor time for one MB of text, and at least one second, that patterns may take which do not run as an
        automaton, since some take years for a few words. It applies to everything that the tokenizer does, is not saved, and
        changes no ids. None means no limit.

    Raises
    ------
    TokenizerFormatError
        If the file is missing, broken or of an unknown format, or if information is missing.
    PatternError
        If `unicode` is unknown, or newer than the version of the installed `regex` package.
    OptionError
        If `regex_timeout` is not a number above 0.

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
    regex_timeout = arguments.regex_timeout(regex_timeout)
    model = load_model(path, pattern=pattern, special_tokens=special_tokens, unicode=unicode, regex_timeout=regex_timeout)
    return Tokenizer.from_model(model)


def _checked_special_tokens(given: Any) -> dict[str, int] | list[str]:
    if not isinstance(given, Mapping):
        return arguments.special_tokens("special_tokens", given)
    tokens = arguments.special_tokens("special_tokens", given.keys())
    return {token: arguments.whole_number(f"special_tokens[{shorten(token)}]", given[token], least=0) for token in tokens}
