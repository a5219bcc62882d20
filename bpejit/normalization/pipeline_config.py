"""The pipeline of a model as data; importing this module imports neither NumPy nor regex."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from bpejit.splitting.presets import Pattern


class TokenFlags(NamedTuple):
    """The flags of an added token; by default a plain special token.

    Parameters
    ----------
    special : bool
        True if decoding can skip it; has no effect on ids.
    single_word : bool
        True if it matches only if no letter or digit is next to it.
    lstrip, rstrip : bool
        True if adjacent white space before or after it belongs to the match.
    normalized : bool
        True if its normalized text is searched for in the normalized text.
    """

    special: bool = True
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False

    @property
    def as_dict(self) -> dict[str, Any]:
        """The flags by their names in `tokenizer.json`."""
        return self._asdict()


class PipelineConfig(NamedTuple):
    """The normalizer and the pre-tokenizer of a `tokenizer.json`.

    Parameters
    ----------
    normalizer, pre_tokenizer : str
        Canonical JSON of the component; `null` if there is none.
    """

    normalizer: str = "null"
    pre_tokenizer: str = "null"


@dataclass(frozen=True)
class FileSections:
    """The sections of a `tokenizer.json` other than vocabulary and merges, for writing them again unchanged.

    Parameters
    ----------
    text : str
        JSON of an object with these sections; `model` has its settings only.
    pattern : str or tuple of str
        The split pattern of the model read from them. They apply only to a model with this pattern.
    vocab_size : int, optional
        The number of tokens in the vocabulary of that file, which need not have the added tokens. It is not saved, since all
        added tokens are in the vocabulary that bpejit writes.
    """

    text: str
    pattern: Pattern
    vocab_size: int | None = field(default=None, compare=False)

    def with_added_tokens(self, tokens: Mapping[str, int]) -> FileSections:
        """Return the sections with plain special tokens appended to `added_tokens`."""
        sections = json.loads(self.text)
        flags = TokenFlags().as_dict
        flags["special"] = flags.pop("special")  # last, as `tokenizers` writes it
        sections["added_tokens"] += [{"id": token_id, "content": text, **flags} for text, token_id in tokens.items()]
        return replace(self, text=json.dumps(sections))
