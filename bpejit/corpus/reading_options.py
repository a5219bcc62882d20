"""The options of functions that read a corpus: how inputs are read, and which part of them is used."""

from collections.abc import Mapping
from typing import Annotated, TypedDict

from bpejit.corpus.registry import DOCUMENTS, input_format_descriptions, input_format_names
from bpejit.corpus.sizes import MAX_RECORD
from bpejit.options import Option
from bpejit.registry import AUTO


class Documents(TypedDict, total=False):
    """What inputs contain, and where their documents end."""

    input_format: Annotated[
        str,
        Option(
            AUTO,
            "str",
            """"auto" recognizes "text", "jsonl" (JSON lines), "parquet" and "arrow" by name and first bytes, also in files
            compressed with gzip or zstd, and refuses inputs that look binary, or like text in UTF-16 or UTF-32. "text" accepts
            any bytes, unchanged.""",
            lambda: (
                "What the input is: auto for its name and first bytes, "
                + ", ".join(f"{name} ({text})" for name, text in input_format_descriptions().items())
                + ". text takes compressed files unchanged."
            ),
            value="choice",
            choices=lambda: (AUTO, *input_format_names()),
        ),
    ]
    documents: Annotated[
        str,
        Option(
            "separator",
            "str",
            """What ends a document of plain text, besides the end of the file, which no pre-token crosses: "separator" (a
            special token), "line" (a newline, which does not belong to the document), "line-with-end" (a newline, which belongs
            to it, as in the trainers of Hugging Face's `tokenizers` for files) or "file" (nothing else).""",
            "What ends a document of plain text besides the end of the file: a special token, nothing, or a newline. "
            "line-with-end keeps the newline in the document, as the trainers of tokenizers do for files.",
            value="choice",
            metavar="",
            choices=lambda: DOCUMENTS,
        ),
    ]
    text_field: Annotated[str, Option("text", "str", "", "Field of JSON records with the text.")]
    text_column: Annotated[
        str,
        Option(
            "text",
            "str",
            """The field of JSON records, and the column of Parquet and Arrow files, that has the text. "a.b" is the field b of
            a.""",
            "Column of Parquet files with the text.",
        ),
    ]


class SpecialsInRecords(TypedDict, total=False):
    """What the texts of records contain."""

    allow_special: Annotated[
        bool,
        Option(
            False,
            "bool",
            "Whether special tokens are found in the texts of records. By default their texts are ordinary text there.",
            "Find special tokens in the texts of records, where they are ordinary text.",
            value="flag",
        ),
    ]


class Records(TypedDict, total=False):
    """Which records are an error."""

    strict: Annotated[
        bool,
        Option(
            False,
            "bool",
            "Whether a record without a text is an error. By default it is skipped, with a warning at the end.",
            "Stop at a record without a text, instead of skipping it.",
            value="flag",
        ),
    ]
    max_record: Annotated[
        int,
        Option(
            MAX_RECORD,
            "int",
            """The largest number of bytes of a record: a line of JSON, or the text of a row. A larger one is an error, since
            reading it takes several times its size. Plain text has no limit.""",
            "Largest size of a record: a line of JSON, or the text of a row. A larger one is an error.",
            value="size",
            metavar="SIZE",
            shown="1Gi",
        ),
    ]
    skip_large_records: Annotated[
        bool,
        Option(
            False,
            "bool",
            "Whether larger records are skipped and counted, like records without text.",
            "Skip and count larger records instead.",
            value="flag",
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
            "int",
            "Use an even sample of about this many bytes of text, from all inputs together, if they are larger.",
            "Use an even sample of this size, from all inputs, if they are larger.",
            value="size",
            metavar="SIZE",
        ),
    ]
    seed: Annotated[
        int, Option(0, "int", "Selects the sample.", "Selects the sample of --max-bytes.", value="count", metavar="N", least=0)
    ]
    sources: Annotated[
        Mapping[str, int] | None,
        Option(
            None,
            "dict of path to int",
            """Further inputs, each with the number of times that its counts count. `inputs` may then be an empty list.""",
            "Further input, whose counts are multiplied by a whole number; may be repeated.",
            metavar="PATH=WEIGHT",
            flag="--source",
        ),
    ]
