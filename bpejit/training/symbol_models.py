"""Models with symbols: the `tokenizer.json` of a training, read as other such files are, so that both have the same ids."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bpejit.arrays import Array, ByteStrings
from bpejit.counting.header import CountSettings
from bpejit.errors import TrainingError, shorten
from bpejit.formats.huggingface_writing import Component, byte_level, sequence, split_step
from bpejit.formats.packed_vocabulary import pack_texts, token_strings
from bpejit.model import Model
from bpejit.normalization.byte_characters import encode_byte_characters
from bpejit.normalization.pipeline_config import TokenFlags
from bpejit.normalization.symbols import Symbols, byte_text, file_text
from bpejit.packed_tokens import PackedMerges, PackedTokens, ReadOnlyDict
from bpejit.splitting.presets import pattern_source, stages_of
from bpejit.training.symbol_settings import SPACE, SymbolSettings


def _replace(text: str, content: str) -> Component:
    return {"type": "Replace", "pattern": {"String": text}, "content": content}


class SymbolModel(NamedTuple):
    """What a model with symbols consists of, apart from its vocabulary.

    Parameters
    ----------
    settings : SymbolSettings
    counting : CountSettings
    special_tokens : tuple of str
    first : bool
        Whether special tokens have the first ids.
    """

    settings: SymbolSettings
    counting: CountSettings
    special_tokens: tuple[str, ...]
    first: bool

    def pre_tokenizer(self) -> Component:
        """Return the pre-tokenizer of the file.

        Raises
        ------
        PatternError
            If the split pattern has no equivalent there.
        """
        settings = self.settings
        if settings.metaspace:
            return self._metaspace()
        from bpejit.splitting.dialect_writer import to_oniguruma

        stages = stages_of(pattern_source(self.counting.pattern))
        steps = [split_step(to_oniguruma(stage, unicode=self.counting.unicode)) for stage in stages]
        if settings.word_end:
            steps.append({"type": "WhitespaceSplit"})
        if not settings.characters:
            steps.append(byte_level())
        return steps[0] if len(steps) == 1 else sequence(*steps)

    def _metaspace(self) -> Component:
        scheme = "always" if self.settings.prefix_space else "never"
        return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": True}

    def decoder(self) -> Component:
        """Return the decoder of the file."""
        settings = self.settings
        steps: list[Component]
        if settings.word_end and settings.characters:
            return {"type": "BPEDecoder", "suffix": settings.word_end}
        if settings.word_end:
            # Not Strip for the last space: it fails in `tokenizers` 0.23 if there is no text.
            last = {"type": "Replace", "pattern": {"Regex": r" \z"}, "content": ""}
            steps = [_replace(settings.word_end, encode_byte_characters(b" ")), byte_level(), last]
        elif not settings.byte_fallback:
            return self._metaspace() if settings.metaspace else {"type": "Fuse"}
        else:
            steps = [_replace(SPACE, " ")] if settings.metaspace else []
            steps += [{"type": "ByteFallback"}, {"type": "Fuse"}]
            steps += [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if settings.prefix_space else []
        return {"type": "Sequence", "decoders": steps}

    def model(self, strings: ByteStrings, n_symbols: int, lefts: Array, rights: Array, **fields: Any) -> Model:
        """Return the model.

        Parameters
        ----------
        strings : ByteStrings
            The symbols, and the token that each merge makes.
        n_symbols : int
        lefts, rights : int32 [merges]
            The indexes of the tokens of each merge.
        **fields
            Further fields of the model.

        Raises
        ------
        TrainingError
            If two tokens are equal, since the text contains the suffix of words.
        """
        settings = self.settings
        kind = Symbols(settings.characters, word_end=settings.word_end, space=SPACE if settings.metaspace else "")
        from bpejit.formats.huggingface_reading import model_from_json

        listed = list(strings)
        known = dict(zip(listed, range(len(listed)), strict=True))
        if len(known) < len(listed):
            repeated = next(token for number, token in enumerate(listed) if known[token] != number)
            written, suffix = shorten(file_text(repeated, kind)), shorten(settings.word_end)
            raise TrainingError(
                f"two tokens are written {written}, since the text contains {suffix}; expected a suffix of words that it does "
                "not contain: choose another `word_end=`"
            )
        # A token that has the text of a special token shares its id, as in Hugging Face's trainer.
        specials = self.special_tokens
        same = token_strings(pack_texts(specials), level=not settings.characters, suffix=settings.word_end, space=kind.space)
        shared = {token: text for token, found, text in zip(*same, specials, strict=True) if found and token in known}
        first = dict.fromkeys(self.special_tokens if self.first else ())
        first |= dict.fromkeys(map(byte_text, range(256)) if settings.byte_fallback else ())
        ids = {text: number for number, text in enumerate(first)}
        following = len(ids) + len(listed) - len(shared)
        for text in self.special_tokens:
            ids.setdefault(text, following + len(ids) - len(first))
        numbers = np.arange(len(first), len(first) + len(listed))
        for token, text in sorted(shared.items(), key=lambda item: known[item[0]]):
            numbers[known[token] :] -= 1
            numbers[known[token]] = ids[text]
        tokens: Mapping[int, bytes] = PackedTokens(strings, numbers)
        if shared:
            tokens = ReadOnlyDict(sorted(zip(numbers.tolist(), listed, strict=True)))
        symbols = zip(listed[:n_symbols], numbers.tolist(), strict=False)
        vocab = {**ids, **{file_text(token, kind): number for token, number in symbols}}
        content = {
            "added_tokens": [{"id": ids[text], "content": text, **TokenFlags()._asdict()} for text in self.special_tokens],
            "pre_tokenizer": self.pre_tokenizer(),
            "decoder": self.decoder(),
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": settings.unknown,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": settings.word_end or None,
                "fuse_unk": False,
                "byte_fallback": settings.byte_fallback,
                "ignore_merges": False,
                "vocab": vocab,
                "merges": [],
            },
        }
        model = model_from_json(content, unicode=self.counting.unicode, config=fields.pop("config"))
        merges = PackedMerges(strings, lefts, rights)
        return dataclasses.replace(model, tokens=tokens, merges=merges if not shared else merges.pairs, **fields)


def check_symbols(settings: SymbolSettings | None, counting: CountSettings) -> None:
    """Check that a model can be made of counts, before hours of counting.

    Raises
    ------
    PatternError, TrainingError
    """
    if settings is not None:
        settings.check_counts(counting.pattern)
        SymbolModel(settings, counting, (), first=True).pre_tokenizer()
