"""The tokenizer model: tokens, merges, special tokens, split pattern and training notes, as immutable data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, ByteStrings
from bpejit.errors import ArgumentTypeError, TokenizerFormatError, shorten
from bpejit.normalization.json_fields import canonical
from bpejit.normalization.pipeline_config import FileSections, PipelineConfig, TokenFlags
from bpejit.normalization.symbols import Symbols
from bpejit.packed_tokens import PackedMerges, PackedTokens, ReadOnlyDict, id_range
from bpejit.splitting.presets import Pattern, pattern_source as pattern_source, stages_of
from bpejit.splitting.text_limits import REGEX_TIMEOUT
from bpejit.tokenizer_config import TokenizerConfig

if TYPE_CHECKING:
    from bpejit.normalization.pipeline_config import Template

NEVER_IN_UTF8 = (0xC0, 0xC1, *range(0xF5, 0x100))
"""The bytes that never occur in valid UTF-8. Vocabularies that were trained on characters lack them."""

_DERIVED = ("ids", "vocab", "unused_tokens", "special_vocab", "special_ids")
"""Cached mappings, which are not pickled."""


_FEW_SPECIALS = 100


@dataclass(frozen=True)
class Model:
    """A tokenizer as immutable data.

    The attributes are read-only: mappings are dicts that refuse changes, sequences are tuples. Arguments are copied and their
    items are checked, except that a `ReadOnlyDict` is used as it is, and so are `PackedTokens` and `PackedMerges`, which have
    been checked when they were made; merges only together with their tokens.

    Parameters
    ----------
    tokens : dict of int to bytes
        Bytes of each ordinary token by id, all 256 single bytes included unless there are `symbols`. Ids may have gaps.
    merges : sequence of (bytes, bytes)
        The pairs in order of rank: the first is merged first. Empty if the model is ranked.
    special_tokens : dict of str to int
        Id of each special token by text. An id is shared only with an ordinary token that has the same bytes.
    pattern : str or tuple of str
        Name of a preset, a regular expression, or several that are applied one after the other (see `bpejit.splitting`).
    tie_break : str, optional
        The rule that chose among equally frequent pairs, if bpejit trained the model.
    merge_counts : sequence of int, optional
        Number of occurrences of each merge's pair at the time of the merge.
    training : dict
        Settings and data of the training run, for information only. Its values must be valid in JSON.
    ranked : bool
        How tokens merge. If False, the pairs of `merges` merge, in that order (Hugging Face, GPT-2). If True, any two
        neighbors merge whose concatenation is a token, the token with the lowest id first (tiktoken).
    ignore_merges : bool
        Whether a pre-token that is a token as a whole becomes that token even if no merges produce it. Every ranked model
        does so.
    pipeline : PipelineConfig, optional
        How text is changed before it is encoded, if that is more than finding special tokens and splitting by `pattern`.
        `pattern` is then the pattern of the pipeline, if it has one.
    token_flags : dict of str to TokenFlags
        Flags of the special tokens that are not plain. They change ids only if there is a pipeline.
    post_processor : str
        JSON of the `post_processor` section of `tokenizer.json`, `null` if there is none (see `template`).
    unicode : str, optional
        The version of Unicode that defines the character properties of the pattern, such as "16.0" (see
        `bpejit.splitting.unicode_versions`). None means the version of the installed `regex` package.
    regex_timeout : float, optional
        Seconds of processor time for one MB of text, and at least one second, that patterns may take which run through the
        `regex` package; None for no limit. It is a setting of this process and its workers: it is not saved, and models that
        differ in it only are equal.
    symbols : Symbols, optional
        What pre-tokens begin as, if that is not a token for each byte: characters, or bytes of which some are missing.
    decoder : str
        JSON of the `decoder` section of `tokenizer.json`, if ids are not decoded to the bytes of their tokens alone.
    config : TokenizerConfig
        Settings for `transformers`. Their tokens must be among the special tokens.
    file_sections : FileSections, optional
        The sections of the `tokenizer.json` that the model was read from, for writing them back unchanged. They change no ids.

    Raises
    ------
    ArgumentTypeError
        If an argument has the wrong type.
    TokenizerFormatError
        If a byte that occurs in UTF-8 has no token, a merge uses or produces bytes that are not a token, or a pair, the bytes
        of a token, or an id is repeated.
    SpecialTokenError
        If a token of `config` is not a special token.
    """

    tokens: Mapping[int, bytes]
    merges: Sequence[tuple[bytes, bytes]]
    special_tokens: Mapping[str, int] = field(default_factory=dict)
    pattern: Pattern = "gpt2"
    tie_break: str | None = None
    merge_counts: Sequence[int] | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    ranked: bool = False
    ignore_merges: bool = False
    pipeline: PipelineConfig | None = None
    token_flags: Mapping[str, TokenFlags] = field(default_factory=dict)
    post_processor: str = "null"
    unicode: str | None = None
    symbols: Symbols | None = None
    decoder: str = ""
    file_sections: FileSections | None = field(default=None, compare=False, repr=False)
    regex_timeout: float | None = field(default=REGEX_TIMEOUT, compare=False, repr=False)
    config: TokenizerConfig = field(default_factory=TokenizerConfig)

    def __post_init__(self) -> None:
        self._check_types()
        self._check_tokens()
        self._check_merges()
        self._check_special_tokens()

    def _check_types(self) -> None:
        """Check the types of all fields, and replace mappings and sequences by read-only copies."""
        store = object.__setattr__  # the dataclass is frozen
        checks = {
            "tokens": (int, bytes, "a dict of int to bytes"),
            "special_tokens": (str, int, "a dict of str to int"),
            "training": (str, None, "a dict"),
            "token_flags": (str, TokenFlags, "a dict of str to TokenFlags"),
        }
        for name, (key_type, value_type, expected) in checks.items():
            given = getattr(self, name)
            if isinstance(given, (ReadOnlyDict, PackedTokens)):
                continue  # of another model, or of a reader: a copy and a check of 200,000 tokens take 20 ms
            if not isinstance(given, Mapping):
                raise arguments.wrong_type(name, given, expected, "give one")
            mapping = ReadOnlyDict(given)
            if not {*map(type, mapping)} <= {key_type} or (value_type and not {*map(type, mapping.values())} <= {value_type}):
                wrong = next(
                    (key, value)
                    for key, value in mapping.items()
                    if type(key) is not key_type or (value_type and type(value) is not value_type)
                )
                raise ArgumentTypeError(f"{name} has the item {shorten(wrong)}; expected {expected}: correct this item")
            store(self, name, mapping)
        for name in ("merges", "merge_counts"):
            given = getattr(self, name)
            if given is None and name == "merge_counts":
                continue
            if isinstance(given, Mapping) or not arguments.is_iterable(given):
                raise arguments.wrong_type(name, given, "a list", "give one")
            store(self, name, given if isinstance(given, PackedMerges) else tuple(given))
        if self.merge_counts and not set(map(type, self.merge_counts)) <= {int}:
            raise arguments.wrong_type("merge_counts", self.merge_counts, "a list of int", "give whole numbers")
        store(self, "pattern", arguments.pattern("pattern", self.pattern))
        for name in ("tie_break", "unicode"):
            arguments.optional_string(name, getattr(self, name))
        for name in ("ranked", "ignore_merges"):
            store(self, name, arguments.flag(name, getattr(self, name)))
        for name, kind in (("pipeline", PipelineConfig), ("file_sections", FileSections), ("symbols", Symbols)):
            if getattr(self, name) is not None:
                arguments.instance(name, getattr(self, name), kind, "give one, or None")
        store(self, "regex_timeout", arguments.regex_timeout(self.regex_timeout))
        arguments.instance("config", self.config, TokenizerConfig, "give one, or leave it out")
        try:
            json.loads(arguments.string("post_processor", self.post_processor))
        except (ValueError, RecursionError) as cause:
            raise TokenizerFormatError(
                f"post_processor is {shorten(self.post_processor)}; expected JSON, 'null' for none: correct it"
            ) from cause

    def _check_tokens(self) -> None:
        shared = 0 if self.symbols is None else len(self.symbols.shared)
        if not isinstance(self.tokens, PackedTokens) and len(self.ids) != len(self.tokens) + shared:
            # Published vocabularies have none: encoding would give the lower id, and both would decode.
            raise TokenizerFormatError(
                f"the vocabulary has {len(self.tokens) - len(self.ids)} tokens with the bytes of another token; "
                "expected different bytes for each token: remove the repeated ones"
            )
        missing = self.missing_bytes
        if not set(missing) <= set(NEVER_IN_UTF8):
            shown = ", ".join(f"0x{byte:02x}" for byte in missing[:8]) + (", ..." if len(missing) > 8 else "")
            raise TokenizerFormatError(
                f"the vocabulary lacks {len(missing)} of the 256 single bytes ({shown}); "
                "without them some text could not be encoded: add a token for each"
            )
        smallest = id_range(self.tokens)[0] if self.tokens else 0
        if smallest < 0:
            raise TokenizerFormatError(f"the vocabulary has the negative token id {smallest}; ids start at 0: renumber it")

    def _check_merges(self) -> None:
        if self.ranked and self.merges:
            raise TokenizerFormatError(
                f"a ranked model has {len(self.merges)} merges; expected none, since the ids of its tokens give the order of "
                "merging: leave one of the two out"
            )
        packed = isinstance(self.merges, PackedMerges) and isinstance(self.tokens, PackedTokens)
        if not self.merges or (packed and self.merges.tokens is self.tokens.strings):  # type: ignore[attr-defined]
            return
        known, seen = self.ids, set()
        for rank, pair in enumerate(self.merges):
            if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(token, bytes) for token in pair)):
                raise arguments.wrong_type(f"merges[{rank}]", pair, "a pair of bytes", "give a tuple (left, right)")
            left, right = pair
            for token in (left, right, left + right):
                if token not in known:
                    raise TokenizerFormatError(
                        f"merge {rank + 1} joins {shorten(left)} and {shorten(right)}, but {shorten(token)} is not in the "
                        "vocabulary; expected merges of tokens in the vocabulary: check that both come from one tokenizer"
                    )
            if pair in seen:
                raise TokenizerFormatError(
                    f"merge {rank + 1} joins {shorten(left)} and {shorten(right)} again; expected each pair once: "
                    "remove the repeated merge"
                )
            seen.add(pair)

    def _check_special_tokens(self) -> None:
        by_id: dict[int, str] = {}
        for text, token_id in self.special_tokens.items():
            if not text:
                raise TokenizerFormatError("a special token is empty; it must have at least one character: remove it")
            if token_id < 0:
                raise TokenizerFormatError(
                    f"the special token {shorten(text)} has the id {token_id}; ids start at 0: renumber it"
                )
            if token_id in by_id:
                raise TokenizerFormatError(
                    f"the special tokens {shorten(by_id[token_id])} and {shorten(text)} both have the id {token_id}; "
                    "each id must have one meaning: choose another id"
                )
            by_id[token_id] = text
            special = special_bytes(text)
            if self.symbols is not None and self.symbols.space:
                special = special.replace(self.symbols.space.encode(), b" ")
            if token_id in self.tokens and self.tokens[token_id] != special:
                raise TokenizerFormatError(
                    f"the special token {shorten(text)} has id {token_id}, which belongs to the token "
                    f"{shorten(self.tokens[token_id])}; each id must have one meaning: choose another id"
                )
        self.config.check_tokens(self.special_tokens)
        unknown = self.token_flags.keys() - self.special_tokens.keys()
        if unknown:
            raise TokenizerFormatError(
                f"there are flags for {shorten(min(unknown))}, which is not a special token; expected flags of special tokens "
                "only: remove them"
            )

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name not in _DERIVED}
        # The process that unpickles the model may not have registered the name of the pattern.
        state["pattern"] = self.pattern, pattern_source(self.pattern)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        pattern, source = state["pattern"]
        vars(self).update({**state, "pattern": pattern if pattern_source(pattern) == source else source})

    def with_special_tokens(self, special_tokens: Iterable[str]) -> Model:
        """Return a model with additional special tokens (see `Tokenizer.with_special_tokens`)."""
        added: dict[str, int] = {}
        next_id = self.vocab_size
        for text in arguments.special_tokens("special_tokens", special_tokens):
            if text not in self.special_tokens:
                token_id = self.ids.get(special_bytes(text))
                if token_id is None:
                    token_id, next_id = next_id, next_id + 1
                added[text] = token_id
        if not added:
            return self
        if self.has_scores:
            raise TokenizerFormatError(
                f"{shorten(min(added))} cannot be added to a model of SentencePiece, which finds only the symbols in its file; "
                "expected special tokens of the model: use its `tokenizer.json`, if there is one"
            )
        sections = None if self.file_sections is None else self.file_sections.with_added_tokens(added)
        return replace(self, special_tokens={**self.special_tokens, **added}, file_sections=sections)

    @cached_property
    def template(self) -> Template | None:
        """The template that adds tokens around a text, parsed from `post_processor`; None if there is none."""
        from bpejit.normalization.pipeline_config import make_template

        return make_template(json.loads(self.post_processor))

    @cached_property
    def ids(self) -> Mapping[bytes, int]:
        """Id of each ordinary token by its bytes."""
        if self.symbols is not None and self.symbols.shared:
            return ReadOnlyDict({**self.symbols.shared, **dict(zip(self.tokens.values(), self.tokens, strict=True))})
        return ReadOnlyDict(zip(self.tokens.values(), self.tokens, strict=True))

    def find(self, token: bytes) -> int | None:
        """Return the id of an ordinary token, or None. Used for each special token: `ids` is made only if there are many."""
        if isinstance(self.tokens, PackedTokens) and "ids" not in vars(self) and len(self.special_tokens) <= _FEW_SPECIALS:
            return self.tokens.find(token)
        return self.ids.get(token)

    def bytes_of(self, number: int) -> bytes | None:
        """Return the bytes of the token with an id, ordinary or special, or None."""
        found = self.tokens.get(number)
        return found if found is not None else self.special_vocab.get(number, self.unused_tokens.get(number))

    @cached_property
    def special_vocab(self) -> Mapping[int, bytes]:
        """Bytes of each special token by id."""
        return ReadOnlyDict({token_id: special_bytes(text) for text, token_id in self.special_tokens.items()})

    @cached_property
    def special_ids(self) -> Mapping[bytes, int]:
        """Id of each special token by its bytes."""
        return ReadOnlyDict({token: token_id for token_id, token in self.special_vocab.items()})

    @cached_property
    def missing_bytes(self) -> tuple[int, ...]:
        """The single bytes that have no token, and that cannot be encoded: none, or bytes that never occur in UTF-8."""
        if self.symbols is not None:
            return NEVER_IN_UTF8 if self.symbols.removes_unknown or self.symbols.unknown_token else ()
        if isinstance(self.tokens, PackedTokens):
            return tuple(sorted({*range(256)} - self.tokens.single_bytes()))
        return tuple(byte for byte in range(256) if bytes([byte]) not in self.ids)

    @property
    def keeps_whole(self) -> bool:
        """True if a pre-token that is a token as a whole becomes that token even if no merges produce it."""
        return self.ignore_merges or (self.ranked and not self.has_scores)

    @property
    def has_scores(self) -> bool:
        """True for a model of SentencePiece: ranked, with symbols that are characters."""
        return self.ranked and self.symbols is not None and self.symbols.characters

    @property
    def symbols_obstacle(self) -> str | None:
        """Why the tokens cannot be written to a file of bytes with a token each, or None if they can."""
        if self.symbols is None:
            return None
        if self.symbols.characters:
            return "its tokens are made of characters instead of bytes"
        if self.symbols.word_end:
            return f"its tokens mark the ends of words with `{self.symbols.word_end}`"
        if self.symbols.shared:
            return f"{len(self.symbols.shared)} of its tokens have the id of another"
        missing = [byte for byte in range(256) if bytes([byte]) not in self.ids and byte not in NEVER_IN_UTF8]
        return f"it has no token for {len(missing)} bytes, such as 0x{missing[0]:02x}" if missing else None

    @cached_property
    def vocab(self) -> Mapping[int, bytes]:
        """Bytes of every token, special tokens included, in order of id."""
        tokens = {**self.unused_tokens, **self.special_vocab, **self.tokens}  # ordinary last: with symbols, they have spaces
        ordered = sorted(tokens)
        return ReadOnlyDict(zip(ordered, map(tokens.__getitem__, ordered), strict=True))

    @cached_property
    def unused_tokens(self) -> Mapping[int, bytes]:
        """Bytes of the ordinary tokens that are only decoded, and of those of byte fallback, by id."""
        if self.symbols is None:
            return {}
        by_byte = {number: bytes([byte]) for byte, number in enumerate(self.symbols.byte_ids) if number >= 0}
        return {**self.symbols.unused, **by_byte}

    @property
    def n_tokens(self) -> int:
        """The number of tokens, special tokens included."""
        numbers = self.tokens.keys() | self.unused_tokens.keys() if self.symbols else self.tokens
        return len(numbers) + sum(token_id not in numbers for token_id in self.special_tokens.values())

    @cached_property
    def vocab_size(self) -> int:
        """One more than the largest id: the number of rows of an embedding table."""
        return max(id_range(self.tokens)[1], *self.special_tokens.values(), *self.unused_tokens, 0) + 1

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of everything that determines ids: tokens, merges, special tokens, pattern and version of Unicode.

        Training notes are not part of it. A preset has the same hash as its regular expression.

        It is computed from packed strings and numbers in a few milliseconds. JSON would take a tenth of a second, and the
        hash is checked each time a tokenizer is loaded.
        """
        digest = hashlib.sha256(b"bpejit model 1")
        special_tokens = sorted(self.special_tokens.items(), key=itemgetter(1))

        def add(strings: Iterable[bytes] | ByteStrings, numbers: Sequence[int] | Array = ()) -> None:
            packed = strings if isinstance(strings, ByteStrings) else ByteStrings.from_list(list(strings))
            lengths = np.diff(packed.starts)
            for words in ([len(packed)], lengths, numbers):
                digest.update(np.array(words, dtype="<u8").tobytes())
            digest.update(packed.pool.data)

        add(stage.encode("utf-8", "surrogatepass") for stage in stages_of(pattern_source(self.pattern)))
        add((special_bytes(text) for text, _ in special_tokens), [token_id for _, token_id in special_tokens])
        if isinstance(self.tokens, PackedTokens):
            add(self.tokens.strings, self.tokens.numbers)
        else:
            add(in_order(self.tokens), sorted(self.tokens))
        add(self.merges.sides() if isinstance(self.merges, PackedMerges) else chain.from_iterable(self.merges))
        # Defaults are not hashed, so that fields that were added later leave existing hashes unchanged.
        for name in ("ranked", "ignore_merges"):
            if getattr(self, name):
                digest.update(f" {name}".encode())
        if self.pipeline is not None:
            flags = {text: found._replace(special=True) for text, found in self.token_flags.items()}
            decisive = {text: found._asdict() for text, found in flags.items() if found != TokenFlags()}
            digest.update(f" preparation {canonical([*self.pipeline, decisive])}".encode())
        if self.symbols is not None:
            digest.update(f" symbols {canonical(self.symbols.as_dict())}".encode())
        if self.unicode is not None:
            digest.update(f" unicode {self.unicode}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def in_order(tokens: Mapping[int, bytes]) -> list[bytes]:
    """Return tokens in order of id."""
    if isinstance(tokens, PackedTokens):
        return list(tokens.strings)  # their ids ascend
    return list(map(tokens.__getitem__, sorted(tokens)))


def special_bytes(text: str) -> bytes:
    """Return the bytes of a special token. In `text`, bytes that are not UTF-8 are escaped by `surrogateescape`.

    Raises
    ------
    TokenizerFormatError
        If `text` contains other surrogates.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as cause:
        raise TokenizerFormatError(
            f"the special token {shorten(text)} contains a lone surrogate; expected Unicode text: remove it"
        ) from cause
