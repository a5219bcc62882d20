"""What a model says of its preparation: pure data, to be had without NumPy and regex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bpejit.splitting.presets import Pattern


@dataclass(frozen=True)
class TokenFlags:
    """What is particular about an added token; the defaults are those of a plain special token.

    Parameters
    ----------
    special : bool
        Whether decoding may leave it out; it changes no ids.
    single_word : bool
        Whether it is found only where no letter or digit stands beside it.
    lstrip, rstrip : bool
        Whether the white space before or behind it goes with it.
    normalized : bool
        Whether it is looked for in the normalized text, and as its normalized self.
    """

    special: bool = True
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False

    @property
    def as_dict(self) -> dict[str, Any]:
        """The flags by name, as `tokenizer.json` has them."""
        return dict(vars(self))


@dataclass(frozen=True)
class Preparation:
    """What is done to text before it is split and merged, as `tokenizer.json` says it.

    Parameters
    ----------
    normalizer, pre_tokenizer : str
        JSON of these two components, keys in order; `null` where there is none.
    """

    normalizer: str = "null"
    pre_tokenizer: str = "null"


@dataclass(frozen=True)
class FileSections:
    """What a `tokenizer.json` said besides its vocabulary and merges, so that it can be written again word for word.

    Parameters
    ----------
    text : str
        JSON of an object with these sections; of `model`, its settings.
    pattern : str or tuple of str
        The split pattern that the model got from them. They are for a model with this pattern only.
    """

    text: str
    pattern: Pattern
