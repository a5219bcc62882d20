"""Options of reading: what an input contains, and how it is divided into documents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from bpejit import arguments
from bpejit.corpus.registry import DOCUMENTS, input_format_names
from bpejit.corpus.sizes import MAX_RECORD
from bpejit.errors import OptionError
from bpejit.registry import AUTO


@dataclass(frozen=True)
class InputOptions:
    """How inputs are read: the options of `ReadingOptions`, and two more.

    Parameters
    ----------
    strip_bom : bool
        Skip byte-order marks of UTF-8 in plain text.
    keep_columns : tuple of str
        Columns, or fields of JSON records, that pass through to the output.
    """

    input_format: str = AUTO
    documents: str = "separator"
    text_field: str = "text"
    text_column: str = "text"
    allow_special: bool = False
    strict: bool = False
    max_record: int = MAX_RECORD
    skip_large_records: bool = False
    strip_bom: bool = False
    keep_columns: tuple[str, ...] = ()

    def that_change_ids(self) -> dict[str, Any]:
        """Return the options by name, without those that only decide whether there is an error, or have no effect."""
        without = {"strict", "skip_large_records"} | (set() if self.keep_columns else {"keep_columns"})
        without |= set() if self.skip_large_records else {"max_record"}
        return {name: value for name, value in vars(self).items() if name not in without}

    @property
    def by_lines(self) -> bool:
        """Whether each line of plain text is a document."""
        return self.documents.startswith("line")

    @property
    def specials_in_lines(self) -> bool:
        """Whether special tokens are found in lines of plain text."""
        return self.documents == "line" or self.allow_special

    @classmethod
    def checked(cls, **options: Any) -> InputOptions:
        """Return options after checking their types and values.

        Raises
        ------
        ArgumentTypeError, OptionError
        """
        found = cls(**options)
        arguments.choice("input_format", found.input_format, (AUTO, *input_format_names()))
        arguments.choice("documents", found.documents, DOCUMENTS)
        for name in ("text_field", "text_column"):
            if not all(arguments.string(name, getattr(found, name)).split(".")):
                raise OptionError(
                    f"{name} is {getattr(found, name)!r}; expected a name, or several separated by dots: correct it"
                )
        for name in ("allow_special", "strict", "skip_large_records", "strip_bom"):
            arguments.flag(name, getattr(found, name))
        most = arguments.whole_number("max_record", found.max_record, least=1)
        return replace(found, max_record=most, keep_columns=_column_names(found.keep_columns))


def _column_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, set, frozenset)) or not arguments.is_iterable(value):
        raise arguments.wrong_type("keep_columns", value, "a list of names", "give one such as ['id']")
    names = [arguments.string(f"keep_columns[{index}]", name) for index, name in enumerate(value)]
    for index, name in enumerate(names):
        if not all(name.split(".")):
            raise OptionError(
                f"keep_columns contains {name!r}; expected a name, or several separated by dots: correct it, or leave it out"
            )
        if name in names[:index]:
            raise OptionError(f"keep_columns contains {name!r} twice; expected different names: remove one of them")
    return tuple(names)
