"""The options of functions that read a corpus: how inputs are read, and which part of them is used.

Nothing heavy is imported, since commands list the options, and their help has the default sizes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypedDict

from bpejit import arguments
from bpejit.corpus.registry import DOCUMENTS, input_format_descriptions, input_format_names
from bpejit.errors import OptionError
from bpejit.options import AUTO, Option

CHUNK_BYTES = 1 << 20
"""Default size of a chunk: large compared to the cost of dispatching it, and small enough that the text is still in the
processor's cache when it is encoded, and the ids when they are written. 4 MiB took 10% more processor time.
"""

UNIT_BYTES = 1 << 26
"""Target size of a unit in bytes of input: what a killed run loses at most, and the granularity of a division into parts."""

MAX_RECORD = 1 << 30
"""Default limit of the size of a record in bytes. Reading one takes several times its size."""


class Documents(TypedDict, total=False):
    """What inputs contain, and where their documents end."""

    input_format: Annotated[
        str,
        Option(
            AUTO,
            """"auto" recognizes "text", "jsonl" (JSON lines), "parquet" and "arrow" by name and first bytes, also in files
            compressed with gzip or zstd, and refuses inputs that look binary, or like text in UTF-16 or UTF-32. "text" accepts
            any bytes, unchanged.""",
            lambda: (
                "What the input is: auto for its name and first bytes, "
                + ", ".join(f"{name} ({text})" for name, text in input_format_descriptions().items())
                + ". text takes compressed files unchanged."
            ),
            choices=lambda: (AUTO, *input_format_names()),
            section="Input",
        ),
    ]
    documents: Annotated[
        str,
        Option(
            "separator",
            """What ends a document of plain text, besides the end of the file, which no pre-token crosses: "separator" (a
            special token), "line" (a newline, which does not belong to the document), "line-with-end" (a newline, which belongs
            to it, as in the trainers of Hugging Face's `tokenizers` for files) or "file" (nothing else).""",
            "What ends a document of plain text besides the end of the file: a special token, nothing, or a newline. "
            "line-with-end keeps the newline in the document, as the trainers of tokenizers do for files.",
            metavar="",
            choices=lambda: DOCUMENTS,
            section="Input",
        ),
    ]
    text_field: Annotated[str, Option("text", "", "Field of JSON records with the text.", section="Input")]
    text_column: Annotated[
        str,
        Option(
            "text",
            """The field of JSON records, and the column of Parquet and Arrow files, that has the text. "a.b" is the field b of
            a.""",
            "Column of Parquet files with the text.",
            section="Input",
        ),
    ]


class SpecialsInRecords(TypedDict, total=False):
    """What the texts of records contain."""

    allow_special: Annotated[
        bool,
        Option(
            False,
            "Whether special tokens are found in the texts of records. By default their texts are ordinary text there.",
            "Find special tokens in the texts of records, where they are ordinary text.",
            section="Input",
        ),
    ]


class Records(TypedDict, total=False):
    """Which records are an error."""

    strict: Annotated[
        bool,
        Option(
            False,
            "Whether a record without a text is an error. By default it is skipped, with a warning at the end.",
            "Stop at a record without a text, instead of skipping it.",
            section="Input",
        ),
    ]
    max_record: Annotated[
        int,
        Option(
            MAX_RECORD,
            """The largest number of bytes of a record: a line of JSON, or the text of a row. A larger one is an error, since
            reading it takes several times its size. Plain text has no limit.""",
            "Largest size of a record: a line of JSON, or the text of a row. A larger one is an error.",
            value="size",
            shown="1Gi",
            section="Input",
        ),
    ]
    skip_large_records: Annotated[
        bool,
        Option(
            False,
            "Whether larger records are skipped and counted, like records without text.",
            "Skip and count larger records instead.",
            section="Input",
        ),
    ]


class ReadingOptions(Documents, SpecialsInRecords, Records, total=False):
    """How inputs are read."""


class Sampling(TypedDict, total=False):
    """Which part of the inputs is used, and how often."""

    max_bytes: Annotated[
        int | None,
        Option(
            None,
            "Use an even sample of about this many bytes of text, from all inputs together, if they are larger.",
            "Use an even sample of this size, from all inputs, if they are larger.",
            value="size",
            section="Large corpora",
        ),
    ]
    seed: Annotated[
        int, Option(0, "Selects the sample.", "Selects the sample of --max-bytes.", least=0, section="Large corpora")
    ]
    sources: Annotated[
        Mapping[str, int] | None,
        Option(
            None,
            """Further inputs, each with the number of times that its counts count. `inputs` may then be an empty list.""",
            "Further input, whose counts are multiplied by a whole number; may be repeated.",
            metavar="PATH=WEIGHT",
            flag="--source",
            kind="dict of path to int",
            section="Input",
        ),
    ]


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
        without = {"strict", "skip_large_records"}
        if not self.keep_columns:
            without.add("keep_columns")
        if not self.skip_large_records:
            without.add("max_record")
        return {name: value for name, value in vars(self).items() if name not in without}

    @property
    def by_lines(self) -> bool:
        """Whether each line of plain text is a document."""
        return self.documents.startswith("line")

    @classmethod
    def checked(cls, **options: Any) -> "InputOptions":
        """Return options after checking their types and values.

        Raises
        ------
        ArgumentTypeError, OptionError
        """
        found = cls(**options)
        arguments.choice("input_format", found.input_format, (AUTO, *input_format_names()))
        arguments.choice("documents", found.documents, DOCUMENTS)
        for name in ("text_field", "text_column"):
            _check_name(f"{name} is", arguments.string(name, getattr(found, name)))
        for name in ("allow_special", "strict", "skip_large_records", "strip_bom"):
            arguments.flag(name, getattr(found, name))
        most = arguments.whole_number("max_record", found.max_record, least=1)
        return replace(found, max_record=most, keep_columns=_column_names(found.keep_columns))


def _check_name(found: str, name: str) -> None:
    if not all(name.split(".")):
        raise OptionError(f"{found} {name!r}; expected a name, or several separated by dots: correct it, or leave it out")


def _column_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, set, frozenset)) or not arguments.is_iterable(value):
        raise arguments.wrong_type("keep_columns", value, "a list of names", "give one such as ['id']")
    names = [arguments.string(f"keep_columns[{index}]", name) for index, name in enumerate(value)]
    for index, name in enumerate(names):
        _check_name("keep_columns contains", name)
        if name in names[:index]:
            raise OptionError(f"keep_columns contains {name!r} twice; expected different names: remove one of them")
    return tuple(names)
