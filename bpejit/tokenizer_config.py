"""Settings of `tokenizer_config.json` that are not in `tokenizer.json`. They do not affect ids."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, TypedDict

from bpejit import arguments
from bpejit.errors import OptionError, SpecialTokenError, shorten
from bpejit.options import Option

TOKEN_FIELDS = ("bos_token", "eos_token", "pad_token")
"""The special tokens that can be chosen in training and export."""

NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""The attributes for special tokens in `transformers`, in its order."""

_LEFT_OUT = ("tokenizer_class", "auto_map", "add_bos_token", "add_eos_token")
"""Fields by which versions of transformers replace parts of `tokenizer.json`, which has their result."""

SIDES = ("padding_side", "truncation_side")


_setting = partial(Option, None, section="For transformers")


class TransformersSettings(TypedDict, total=False):
    """Settings for `transformers` that training and saving take."""

    bos_token: Annotated[
        str | None,
        _setting("", "Special token at the start of a text, for transformers; added if missing.", metavar="TEXT"),
    ]
    eos_token: Annotated[
        str | None, _setting("", "Special token at the end of a text.", metavar="TEXT", shown="<|endoftext|> if present")
    ]
    pad_token: Annotated[
        str | None,
        _setting(
            """Special tokens with a role in `transformers`. They are added to `special_tokens` if necessary. The default of
            `eos_token` is `<|endoftext|>`, if that is a special token.""",
            "Special token for padding.",
            metavar="TEXT",
        ),
    ]
    model_max_length: Annotated[
        int | None,
        _setting(
            """The maximum number of tokens that the model accepts. Written to `tokenizer_config.json` for `transformers`, like
            the tokens above; it does not change any id.""",
            "Longest input of the model in tokens, for transformers.",
        ),
    ]
    chat_template: Annotated[
        str | None,
        _setting(
            "A Jinja template that formats a conversation. Also written to `tokenizer_config.json`.",
            "Jinja template that formats a conversation, for transformers.",
            metavar="FILE",
        ),
    ]


@dataclass(frozen=True)
class TokenizerConfig:
    """Settings for `transformers`, each optional.

    Parameters
    ----------
    bos_token, eos_token, pad_token, unk_token, sep_token, cls_token, mask_token : str, optional
        Special tokens for the beginning of a text, for its end, for padding, and so on.
    model_max_length : int, optional
        Maximum number of tokens of a text.
    chat_template : str or dict of str to str, optional
        A Jinja template that formats a conversation as text, or several by name.
    extra_special_tokens : tuple of str, optional
        Special tokens without a role.
    padding_side, truncation_side : str, optional
        `right` or `left`.
    split_special_tokens : bool, optional
        Whether special tokens in a text are encoded as ordinary text.
    others : dict, optional
        The other fields of the `tokenizer_config.json` that the settings were read from. None if they were not read from one;
        `eos_token` is then `<|endoftext|>` for other tools, if there is such a token.
    """

    bos_token: str | None = None
    eos_token: str | None = None
    pad_token: str | None = None
    model_max_length: int | None = None
    chat_template: str | dict[str, str] | None = None
    unk_token: str | None = None
    sep_token: str | None = None
    cls_token: str | None = None
    mask_token: str | None = None
    extra_special_tokens: tuple[str, ...] | None = None
    padding_side: str | None = None
    truncation_side: str | None = None
    split_special_tokens: bool | None = None
    others: dict[str, Any] | None = None

    @classmethod
    def checked(cls, **fields: Any) -> "TokenizerConfig":
        """Return a configuration, after checking the types of its fields.

        Raises
        ------
        ArgumentTypeError, OptionError
        """
        checked = {
            **fields,
            "model_max_length": arguments.optional_whole_number("model_max_length", fields.get("model_max_length"), least=1),
        }
        for name in NAMED:
            if arguments.optional_string(name, fields.get(name)) == "":
                raise OptionError(f"{name} is empty; expected a special token of at least one character: leave it out")
        for name in SIDES:
            if fields.get(name) is not None:
                arguments.choice(name, fields[name], ("right", "left"))
        templates = fields.get("chat_template")
        for template in templates.values() if isinstance(templates, dict) else [templates]:
            arguments.optional_string("chat_template", template)
        extra = fields.get("extra_special_tokens")
        if extra is not None:
            checked["extra_special_tokens"] = tuple(arguments.special_tokens("extra_special_tokens", extra))
        if fields.get("split_special_tokens") is not None:
            arguments.flag("split_special_tokens", fields["split_special_tokens"])
        if fields.get("others") is not None:
            arguments.instance("others", fields["others"], dict, "give one, or leave it out")
        return cls(**checked)

    @property
    def tokens(self) -> dict[str, str]:
        """The special tokens by name."""
        found = {name: getattr(self, name) for name in NAMED}
        return {name: token for name, token in found.items() if token is not None}

    @property
    def fields(self) -> dict[str, Any]:
        """The settings that are not None, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def left_out(self) -> str | None:
        """A note about the fields that `written` leaves out; None if there are none."""
        others = self.others or {}
        names = [name for name in _LEFT_OUT if others.get(name)]
        if str(others.get("tokenizer_class")).removesuffix("Fast") == "PreTrainedTokenizer":
            names.remove("tokenizer_class")
        if not names:
            return None
        return f"{', '.join(names)} of the source not written, so that all versions of transformers follow tokenizer.json"

    def written(self, end: str | None) -> dict[str, Any]:
        """Return the fields of a `tokenizer_config.json` of the class `PreTrainedTokenizerFast`.

        Parameters
        ----------
        end : str, optional
            The `eos_token`, if the settings have none and were not read from such a file.
        """
        fields = self.fields
        others = fields.pop("others", None)
        if isinstance(self.chat_template, dict):
            fields["chat_template"] = [{"name": name, "template": text} for name, text in self.chat_template.items()]
        if self.extra_special_tokens:  # version 4 reads a list under this name only
            fields["additional_special_tokens"] = list(fields.pop("extra_special_tokens"))
        if others is None and end is not None:
            fields = {"eos_token": end, **fields}
        plain = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
        kept = {name: value for name, value in (others or {}).items() if name not in _LEFT_OUT}
        return {**plain, **fields, **kept}

    def check_tokens(self, special_tokens: Collection[str]) -> None:
        """Check that all tokens are special tokens of a tokenizer.

        Raises
        ------
        SpecialTokenError
        """
        for name, token in [
            *self.tokens.items(),
            *(("an extra special token", token) for token in self.extra_special_tokens or ()),
        ]:
            if token not in special_tokens:
                raise SpecialTokenError(
                    f"{name} is {shorten(token)}, which is not a special token of the tokenizer; expected one of "
                    f"{shorten(list(special_tokens))}: choose one of these, or train with it"
                )
