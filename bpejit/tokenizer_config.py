"""What `transformers` reads from `tokenizer_config.json` and `tokenizer.json` does not say. No id depends on it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from bpejit import arguments
from bpejit.errors import SpecialTokenError, shorten

TOKEN_FIELDS = ("bos_token", "eos_token", "pad_token")


@dataclass(frozen=True)
class TokenizerConfig:
    """Settings for `transformers`, each optional.

    Parameters
    ----------
    bos_token, eos_token, pad_token : str, optional
        Special tokens: the one that begins a text, the one that ends it, and the one that fills up shorter rows.
    model_max_length : int, optional
        Most tokens of a text that the model takes.
    chat_template : str, optional
        A Jinja template that makes the text of a conversation.
    """

    bos_token: str | None = None
    eos_token: str | None = None
    pad_token: str | None = None
    model_max_length: int | None = None
    chat_template: str | None = None

    @classmethod
    def checked(cls, **fields: Any) -> TokenizerConfig:
        """Make one of arguments of these names, of any type.

        Raises
        ------
        ArgumentTypeError, OptionError
        """
        for name in (*TOKEN_FIELDS, "chat_template"):
            arguments.optional_string(name, fields.get(name))
        length = arguments.optional_whole_number("model_max_length", fields.get("model_max_length"), least=1)
        return cls(**{**fields, "model_max_length": length})

    @property
    def tokens(self) -> dict[str, str]:
        """The special tokens by name."""
        found = {name: getattr(self, name) for name in TOKEN_FIELDS}
        return {name: token for name, token in found.items() if token is not None}

    @property
    def fields(self) -> dict[str, Any]:
        """What is set, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def check_tokens(self, special_tokens: Collection[str]) -> None:
        """Raise if a token is not among the special tokens of a tokenizer.

        Raises
        ------
        SpecialTokenError
        """
        for name, token in self.tokens.items():
            if token not in special_tokens:
                raise SpecialTokenError(
                    f"{name} is {shorten(token)}, which is no special token of the tokenizer; expected one of "
                    f"{shorten(list(special_tokens))}: choose one of these, or train with it"
                )
