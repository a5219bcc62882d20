"""Settings in `tokenizer_config.json` that are not in `tokenizer.json`. They do not affect ids."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from bpejit import arguments
from bpejit.errors import OptionError, SpecialTokenError, shorten

TOKEN_FIELDS = ("bos_token", "eos_token", "pad_token")


@dataclass(frozen=True)
class TokenizerConfig:
    """Settings for `transformers`, each optional.

    Parameters
    ----------
    bos_token, eos_token, pad_token : str, optional
        Special tokens for the beginning of a text, for its end, and for padding.
    model_max_length : int, optional
        Maximum number of tokens of a text.
    chat_template : str, optional
        A Jinja template that formats a conversation as text.
    """

    bos_token: str | None = None
    eos_token: str | None = None
    pad_token: str | None = None
    model_max_length: int | None = None
    chat_template: str | None = None

    @classmethod
    def checked(cls, **fields: Any) -> TokenizerConfig:
        """Return a configuration, after checking the types of its fields.

        Raises
        ------
        ArgumentTypeError, OptionError
        """
        for name in (*TOKEN_FIELDS, "chat_template"):
            value = arguments.optional_string(name, fields.get(name))
            if value == "" and name in TOKEN_FIELDS:
                raise OptionError(f"{name} is empty; expected a special token of at least one character: leave it out")
        length = arguments.optional_whole_number("model_max_length", fields.get("model_max_length"), least=1)
        return cls(**{**fields, "model_max_length": length})

    @property
    def tokens(self) -> dict[str, str]:
        """The special tokens by name."""
        found = {name: getattr(self, name) for name in TOKEN_FIELDS}
        return {name: token for name, token in found.items() if token is not None}

    @property
    def fields(self) -> dict[str, Any]:
        """The settings that are not None, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def check_tokens(self, special_tokens: Collection[str]) -> None:
        """Check that all tokens are special tokens of a tokenizer.

        Raises
        ------
        SpecialTokenError
        """
        for name, token in self.tokens.items():
            if token not in special_tokens:
                raise SpecialTokenError(
                    f"{name} is {shorten(token)}, which is not a special token of the tokenizer; expected one of "
                    f"{shorten(list(special_tokens))}: choose one of these, or train with it"
                )
