"""What a tokenizer is, apart from how it runs: tokens, merges, special tokens, split pattern, and where they come from."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from bpejit.errors import TokenizerFormatError, shorten
from bpejit.normalization.json_fields import canonical
from bpejit.normalization.record import FileSections, Preparation, TokenFlags
from bpejit.splitting.presets import Pattern
from bpejit.splitting.presets import pattern_source as pattern_source
from bpejit.tokenizer_config import TokenizerConfig

if TYPE_CHECKING:
    from bpejit.normalization.post_processor import Template

NEVER_IN_UTF8 = (0xC0, 0xC1, *range(0xF5, 0x100))
"""The bytes that no valid UTF-8 has. Vocabularies that were trained on characters lack them."""


@dataclass(frozen=True)
class Model:
    """An immutable tokenizer, as data.

    Parameters
    ----------
    tokens : dict of int to bytes
        Id and bytes of each ordinary token; all 256 single bytes are among them. Ids may have gaps.
    merges : list of (bytes, bytes)
        The pairs in order of rank: the first is merged first. Empty if the model is ranked.
    special_tokens : dict of str to int
        Text and id of each special token; no id is that of an ordinary token.
    pattern : str or tuple of str
        Name of a preset, a regular expression, or several that are applied one after the other (see `bpejit.splitting`).
    tie_break : str, optional
        The rule that chose among equally frequent pairs, where the model was trained by bpejit.
    merge_counts : list of int, optional
        How often each merge's pair occurred when it was merged.
    training : dict
        Where the training data came from, and with which settings: for people, never read by the code.
    ranked : bool
        Which of the two kinds of merging this is. Usually the pairs of `merges` merge, in their order (Hugging Face, GPT-2).
        In a ranked model any two neighbours merge whose bytes together are a token, the token of the lowest id first
        (tiktoken).
    ignore_merges : bool
        Whether a pre-token that is a token as a whole becomes that token, even if no merges lead to it. Every ranked model
        does so.

    preparation : Preparation, optional
        What is done to text first, where that is more than finding special tokens and splitting by `pattern`. The pattern is
        then that of the preparation, if there is one.
    token_flags : dict of str to TokenFlags
        What is particular about special tokens, for those that are not plain. Without a preparation it decides no ids.
    post_processor : str
        JSON of what `tokenizer.json` says stands around the ids of a text, `null` if nothing (see `template`).
    unicode : str, optional
        The version of Unicode by which the pattern knows letters from other characters, such as "16.0" (see
        `bpejit.splitting.unicode_versions`); None for whichever the installed `regex` package has.
    config : TokenizerConfig
        Settings for `transformers`; their tokens are among the special tokens.
    file_sections : FileSections, optional
        The sections of the `tokenizer.json` from which the model was read, to write them again as they were. They decide
        nothing here.

    Raises
    ------
    TokenizerFormatError
        If a byte that text may have has no token, a merge uses or makes bytes that are no token, or a pair or an id is there
        twice.
    """

    tokens: dict[int, bytes]
    merges: list[tuple[bytes, bytes]]
    special_tokens: dict[str, int] = field(default_factory=dict)
    pattern: Pattern = "gpt2"
    tie_break: str | None = None
    merge_counts: list[int] | None = None
    training: dict[str, Any] = field(default_factory=dict)
    ranked: bool = False
    ignore_merges: bool = False
    preparation: Preparation | None = None
    token_flags: dict[str, TokenFlags] = field(default_factory=dict)
    post_processor: str = "null"
    unicode: str | None = None
    file_sections: FileSections | None = field(default=None, compare=False, repr=False)
    config: TokenizerConfig = field(default_factory=TokenizerConfig)

    def __post_init__(self) -> None:
        ids = self.ids
        if len(ids) != len(self.tokens):
            # Two ids with the same bytes: encoding gives the lower, both decode. Published vocabularies have none.
            raise TokenizerFormatError(
                f"the vocabulary has {len(self.tokens) - len(ids)} tokens whose bytes another token has too; "
                "each token's bytes must be its own: remove the repeated ones"
            )
        missing = self.missing_bytes
        if not set(missing) <= set(NEVER_IN_UTF8):
            shown = ", ".join(f"0x{byte:02x}" for byte in missing[:8]) + (", ..." if len(missing) > 8 else "")
            raise TokenizerFormatError(
                f"the vocabulary lacks {len(missing)} of the 256 single bytes ({shown}); "
                "without them some text could not be encoded: add a token for each"
            )
        if self.ranked and self.merges:
            raise TokenizerFormatError(
                f"a ranked model has {len(self.merges)} merges; expected none, since the ids of its tokens say what merges: "
                "leave one of the two out"
            )
        bad = min(self.tokens, default=0)
        if bad < 0:
            raise TokenizerFormatError(f"the vocabulary has the negative token id {bad}; ids start at 0: renumber it")
        for rank, (left, right) in enumerate(self.merges):
            if left not in ids or right not in ids or left + right not in ids:
                part = next(part for part in (left, right, left + right) if part not in ids)
                raise TokenizerFormatError(
                    f"merge {rank + 1} joins {shorten(left)} and {shorten(right)}, but {shorten(part)} is not in the "
                    "vocabulary; the merges and the vocabulary must belong together: check that both come from one tokenizer"
                )
        if len(set(self.merges)) != len(self.merges):
            rank = next(rank for rank, pair in enumerate(self.merges) if pair in self.merges[:rank])
            raise TokenizerFormatError(
                f"merge {rank + 1} joins {shorten(self.merges[rank][0])} and {shorten(self.merges[rank][1])} again; "
                "each pair must have one place in the order of merges: remove the repeated line"
            )
        named: dict[int, str] = {}
        for text, token_id in self.special_tokens.items():
            if not text:
                raise TokenizerFormatError("a special token is empty; it must have at least one character: remove it")
            if token_id < 0:
                raise TokenizerFormatError(
                    f"the special token {shorten(text)} has the id {token_id}; ids start at 0: renumber it"
                )
            if token_id in named:
                raise TokenizerFormatError(
                    f"the special tokens {shorten(named[token_id])} and {shorten(text)} both have the id {token_id}; "
                    "each id must have one meaning: choose another id"
                )
            named[token_id] = text
            special = special_bytes(text)
            if token_id in self.tokens and self.tokens[token_id] != special:
                raise TokenizerFormatError(
                    f"the special token {shorten(text)} has id {token_id}, which belongs to the token "
                    f"{shorten(self.tokens[token_id])}; each id must have one meaning: choose another id"
                )

        self.config.check_tokens(self.special_tokens)
        unknown = self.token_flags.keys() - self.special_tokens.keys()
        if unknown:
            raise TokenizerFormatError(
                f"there are flags for {shorten(min(unknown))}, which is no special token; expected only flags of those: "
                "remove them"
            )

    @cached_property
    def template(self) -> Template | None:
        """What stands around the ids of a text for models that want it; None if nothing does."""
        from bpejit.normalization.post_processor import make_template

        return make_template(json.loads(self.post_processor))

    @cached_property
    def ids(self) -> dict[bytes, int]:
        """Id of each ordinary token, by its bytes."""
        return {token: token_id for token_id, token in self.tokens.items()}

    @cached_property
    def missing_bytes(self) -> list[int]:
        """The single bytes that have no token: none, or some of those that no UTF-8 text has."""
        return [byte for byte in range(256) if bytes([byte]) not in self.ids]

    @cached_property
    def vocab(self) -> dict[int, bytes]:
        """Bytes of every token, special ones included, in order of id."""
        specials = {token_id: special_bytes(text) for text, token_id in self.special_tokens.items()}
        tokens = {**self.tokens, **specials}
        return {token_id: tokens[token_id] for token_id in sorted(tokens)}

    @property
    def vocab_size(self) -> int:
        """One more than the largest id: what an embedding table needs."""
        return max(chain(self.tokens, self.special_tokens.values())) + 1

    @cached_property
    def sha256(self) -> str:
        """Hash of all that decides ids: tokens, merges, special tokens, pattern and version of Unicode. Training notes do
        not count, nor whether a preset was given by name.

        It runs over packed strings and numbers, which takes milliseconds where JSON would take a tenth of a second: every
        tokenizer that is loaded is checked by it.
        """
        digest = hashlib.sha256(b"bpejit model 1")
        source = pattern_source(self.pattern)
        stages = (source,) if isinstance(source, str) else source
        special_tokens = sorted(self.special_tokens.items(), key=itemgetter(1))
        for strings, numbers in (
            ([stage.encode("utf-8", "surrogatepass") for stage in stages], []),
            ([special_bytes(text) for text, _ in special_tokens], [token_id for _, token_id in special_tokens]),
            (in_order(self.tokens), sorted(self.tokens)),
            (list(chain.from_iterable(self.merges)), []),
        ):
            lengths = [len(string) for string in strings]
            digest.update(struct.pack(f"<Q{len(lengths)}Q{len(numbers)}Q", len(lengths), *lengths, *numbers))
            digest.update(b"".join(strings))
        # Only where it is not as usual, so that the hashes of the usual stay what they were.
        for name in ("ranked", "ignore_merges"):
            if getattr(self, name):
                digest.update(f" {name}".encode())
        if self.preparation is not None:
            flags = {text: {**flags.as_dict, "special": True} for text, flags in self.token_flags.items()}
            usual = TokenFlags().as_dict
            parts = [self.preparation.normalizer, self.preparation.pre_tokenizer]
            decisive = {text: found for text, found in flags.items() if found != usual}
            digest.update(f" preparation {canonical([*parts, decisive])}".encode())
        if self.unicode is not None:
            digest.update(f" unicode {self.unicode}".encode())
        return digest.hexdigest()


def in_order(tokens: dict[int, bytes]) -> list[bytes]:
    """Return tokens in order of their ids."""
    return [tokens[token_id] for token_id in sorted(tokens)]


def special_bytes(text: str) -> bytes:
    """Return the bytes of a special token; those that are no UTF-8 are escaped in `text` as Python escapes file names.

    Raises
    ------
    TokenizerFormatError
        If `text` has other surrogates.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as cause:
        raise TokenizerFormatError(
            f"the special token {shorten(text)} has a surrogate, which is no character of text; expected Unicode text: "
            "remove it"
        ) from cause
