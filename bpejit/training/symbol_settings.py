"""What training begins with, if not with bytes: the options, and the settings."""

from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from bpejit import arguments
from bpejit.errors import OptionError, TrainingError, shorten
from bpejit.options import Option
from bpejit.splitting.presets import PRESETS, Pattern, pattern_source

SPACE = "▁"
"""The character that stands for a space in files with `metaspace`."""

METASPACE_PATTERN = f"[ {SPACE}][^ {SPACE}]*|[^ {SPACE}]+"
"""The split pattern of `metaspace`: only the first pre-token of a text begins with another character than a space."""


class SymbolOptions(TypedDict, total=False):
    """What pre-tokens begin as."""

    symbols: Annotated[
        str,
        Option(
            "bytes",
            """What merging begins with: "bytes", or "characters". Characters get the first ids after special tokens, in order
            of their code points. Merges and ids are those of Hugging Face's trainer with `tie_break="hf"`.""",
            "Merge bytes, or characters.",
            choices=lambda: ("bytes", "characters"),
            section="Algorithm",
        ),
    ]
    byte_fallback: Annotated[
        bool,
        Option(
            False,
            """With `symbols="characters"`: add the 256 tokens `<0x00>` to `<0xFF>` before the characters; a character that is
            not in the vocabulary becomes its bytes.""",
            "Add 256 tokens for the bytes of characters that are not in the vocabulary.",
            section="Algorithm",
        ),
    ]
    character_coverage: Annotated[
        float | None,
        Option(
            None,
            """With `symbols="characters"`: the share of the text that the characters of the vocabulary make up, such as
            0.9995; rarer ones are left out.""",
            "Leave out rare characters beyond this share of the text, such as 0.9995.",
            metavar="SHARE",
            shown="1.0",
            section="Algorithm",
        ),
    ]
    limit_alphabet: Annotated[
        int | None,
        Option(
            None,
            'With `symbols="characters"`: the largest number of characters in the vocabulary, instead of their share.',
            "Keep this many characters, the most frequent ones.",
            shown="unlimited",
            section="Algorithm",
        ),
    ]
    unk_token: Annotated[
        str | None,
        Option(
            None,
            """With `symbols="characters"`: the special token that a character becomes which is not in the vocabulary; it is
            added to `special_tokens` if necessary. Without it, and without `byte_fallback`, such characters are lost.""",
            "Special token for characters that are not in the vocabulary.",
            metavar="TEXT",
            section="Algorithm",
        ),
    ]
    word_end: Annotated[
        str | None,
        Option(
            None,
            """A suffix such as `</w>` of the last symbol of a word. Words are what `pattern` and white space separate; the
            white space is lost.""",
            "Suffix of the last symbol of a word, such as </w>. White space separates words, and is lost.",
            metavar="TEXT",
            section="Algorithm",
        ),
    ]
    metaspace: Annotated[
        bool,
        Option(
            False,
            f"""With `symbols="characters"`: divide text before each space only, instead of by a pattern, and write spaces as
            `{SPACE}`, as SentencePiece does.""",
            f"Divide text before spaces only, and write them as {SPACE}.",
            section="Algorithm",
        ),
    ]
    prefix_space: Annotated[
        bool,
        Option(
            False,
            "With `metaspace`: insert a space before a text that does not begin with one, and remove it in decoding.",
            "With --metaspace, insert a space before each text.",
            section="Algorithm",
        ),
    ]
    max_token_characters: Annotated[
        int | None,
        Option(
            None,
            """With `symbols="characters"`: maximum length of a token in characters, without the suffix. Hugging Face's
            `max_token_length=k` corresponds to k - 1 here, for k of at least 3.""",
            "Longest token in characters.",
            shown="unlimited",
            section="Algorithm",
        ),
    ]


_EXCLUSIVE = (
    *(("character_coverage", "limit_alphabet"), ("word_end", "byte_fallback"), ("word_end", "metaspace")),
    ("max_token_bytes", "max_token_characters"),
)
"""Options of which only one may be given."""


@dataclass(frozen=True)
class SymbolSettings:
    """What pre-tokens begin as (see `SymbolOptions`).

    Parameters
    ----------
    characters : bool
        Whether symbols are characters; otherwise they are bytes, and there is a `word_end`.
    byte_fallback : bool
    coverage : float, optional
    limit : int, optional
    unknown : str, optional
    word_end : str
        Empty if there is none.
    metaspace : bool
    prefix_space : bool
    most_characters : int, optional
    """

    characters: bool
    byte_fallback: bool = False
    coverage: float | None = None
    limit: int | None = None
    unknown: str | None = None
    word_end: str = ""
    metaspace: bool = False
    prefix_space: bool = False
    most_characters: int | None = None

    @property
    def n_bytes(self) -> int:
        """The number of tokens of single bytes in every vocabulary."""
        return (256 if self.byte_fallback else 0) if self.characters else 512

    @classmethod
    def checked(cls, **options: Any) -> "SymbolSettings | None":
        """Return the settings of `SymbolOptions` after checking them, or None if merging begins with bytes alone.

        Raises
        ------
        ArgumentTypeError, OptionError
        """
        characters = arguments.choice("symbols", options["symbols"], ("bytes", "characters")) == "characters"
        coverage, most = options["character_coverage"], options["max_token_characters"]
        values: dict[str, Any] = {
            "word_end": arguments.optional_string("word_end", options["word_end"]),
            "unk_token": arguments.optional_string("unk_token", options["unk_token"]),
            "character_coverage": None if coverage is None else _share(coverage),
            "limit_alphabet": arguments.optional_whole_number("limit_alphabet", options["limit_alphabet"], least=1),
            "max_token_characters": arguments.optional_whole_number("max_token_characters", most, least=1, most=2**31),
            **{name: arguments.flag(name, options[name]) for name in ("byte_fallback", "metaspace", "prefix_space")},
        }
        given = [name for name, value in values.items() if value]
        only = next((name for name in given if name != "word_end"), None)
        if only is not None and not characters:
            raise OptionError(f'{only} is given, and symbols is "bytes"; expected "characters": give `symbols=`')
        if options.get("max_token_bytes") is not None:
            given.append("max_token_bytes")
        for one, other in _EXCLUSIVE:
            if one in given and other in given:
                raise OptionError(f"{one} and {other} are given; expected at most one of them: leave one out")
        if values["prefix_space"] and not values["metaspace"]:
            raise OptionError("prefix_space is True, and metaspace is False; expected both: give `metaspace=True` as well")
        word_end = values["word_end"] or ""
        if any(character.isspace() or "\ud800" <= character <= "\udfff" for character in word_end):
            raise OptionError(
                f"word_end is {shorten(word_end)}; expected a text without white space and surrogates: choose another one"
            )
        if not characters and not word_end:
            return None
        return cls(
            characters,
            values["byte_fallback"],
            values["character_coverage"],
            values["limit_alphabet"],
            values["unk_token"],
            word_end,
            values["metaspace"],
            values["prefix_space"],
            values["max_token_characters"],
        )

    def pattern(self, given: Pattern) -> Pattern:
        """Return the split pattern of counting, which replaces the default one with `metaspace`.

        Raises
        ------
        TrainingError
            If another pattern is given with `metaspace`.
        """
        if not self.metaspace:
            return given
        if pattern_source(given) not in (PRESETS["gpt2"], METASPACE_PATTERN):
            raise TrainingError(
                f"pattern is {shorten(given)}, and metaspace is True, which divides text by {METASPACE_PATTERN!r}; expected "
                "one of them: leave one out"
            )
        return METASPACE_PATTERN

    def check_counts(self, pattern: Pattern) -> None:
        """Check that counts have the pattern of `metaspace`.

        Raises
        ------
        TrainingError
        """
        if self.metaspace and pattern_source(pattern) != METASPACE_PATTERN:
            raise TrainingError(
                f"the counts were made with the pattern {shorten(pattern)}; expected {METASPACE_PATTERN!r}, since metaspace is "
                "True: count again with it"
            )


def _share(coverage: Any) -> float:
    """Return the argument `character_coverage`."""
    is_number = isinstance(coverage, (int, float)) and not isinstance(coverage, bool)
    if is_number and 0 < coverage <= 1:
        return float(coverage)
    raise OptionError(
        f"character_coverage is {shorten(coverage)}; expected a number above 0 and up to 1: give one such as 0.9995"
    )
