"""Checks of what a tokenizer file contains that would otherwise take all memory, or give other ids than its own tool."""

from __future__ import annotations

from bpejit.errors import TokenizerFormatError, shorten
from bpejit.model import Model
from bpejit.packed_tokens import id_range
from bpejit.storage.files import StrPath

IDS_PER_TOKEN = 64
"""The number of ids that there may be for each token: tables for encoding and decoding have a row for each id."""

END_OF_WORD = b"</w>"


def check_gaps(model: Model, path: StrPath, *, given: bool) -> None:
    """Raise TokenizerFormatError if the ids of a file leave large gaps.

    Parameters
    ----------
    model : Model
    path : path
    given : bool
        True if the special tokens were passed, and are not from the file.
    """
    specials = {} if given else model.special_tokens
    largest = max(id_range(model.tokens)[1], *specials.values(), 0)
    n = len(model.tokens) + len(specials)
    if largest > IDS_PER_TOKEN * n:
        text = next((text for text, number in specials.items() if number == largest), None)
        token = shorten(model.tokens[largest] if text is None else text)
        raise TokenizerFormatError(
            f"`{path}` has the id {largest} for the token {token}, with {n} tokens; expected ids up to {IDS_PER_TOKEN * n}, "
            f"{IDS_PER_TOKEN} times their number: renumber it"
        )


def check_words(model: Model, path: StrPath) -> None:
    """Raise TokenizerFormatError if the tokens of a file are those of CLIP, in which `</w>` means the end of a word."""
    if all(model.find(bytes([letter]) + END_OF_WORD) is not None for letter in b"etaoinshr"):
        raise word_ends(path)


def word_ends(path: StrPath) -> TokenizerFormatError:
    """Return the error for a vocabulary that marks the ends of words, as CLIP's."""
    return TokenizerFormatError(
        f"`{path}` marks the ends of words with `</w>`, as CLIP's vocabulary does; expected byte-level tokens without an "
        "`end_of_word_suffix`, which bpejit does not read yet: encode with the tool that it is for"
    )
