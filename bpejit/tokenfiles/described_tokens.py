"""The properties of an open token file that its description has."""

from __future__ import annotations

from bpejit.tokenfiles.description import Description


class DescribedTokens:
    """An open token file, which may have a description.

    Attributes
    ----------
    description : Description or None
    """

    description: Description | None

    @property
    def bytes_read(self) -> int | None:
        """The number of bytes of text that the ids encode; None without a description."""
        return None if self.description is None else self.description.bytes_read

    @property
    def vocab_size(self) -> int | None:
        """One more than the largest id of the tokenizer; None without a description."""
        return None if self.description is None else self.description.vocab_size

    @property
    def tokenizer_sha256(self) -> str | None:
        """The hash of the tokenizer; None without a description."""
        return None if self.description is None else self.description.tokenizer_sha256

    @property
    def ids_sha256(self) -> str | None:
        """The hash of the ids; None if the description lacks it."""
        return None if self.description is None else self.description.ids_sha256
