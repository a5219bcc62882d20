"""The names of tokenizers and texts in reports; the options of the functions that count tokens."""

import os
from collections.abc import Sequence
from typing import Annotated

from bpejit.arguments import wrong_type
from bpejit.corpus.reading_options import ReadingOptions
from bpejit.engines import LocalWork
from bpejit.errors import OptionError, shorten, visible
from bpejit.options import Option
from bpejit.progress_bar import counted


class CountingOptions(ReadingOptions, LocalWork, total=False):
    """The options of the functions that count tokens."""

    names: Annotated[
        tuple[str, ...],
        Option(
            (),
            """Names of the tokenizers in their order. By default, and for those without one, a name is the last part of the
            path.""",
            "Name of a tokenizer in the report; may be repeated, in the order of the tokenizers.",
            kind="sequence of str",
            flag="--name",
        ),
    ]


def tokenizer_names(paths: Sequence[str], names: Sequence[str] = ()) -> list[str]:
    """Return a name for each tokenizer: those that are given, and then the last part of the path, with a number if repeated.

    Raises
    ------
    ArgumentTypeError, OptionError
        If there are more names than tokenizers, or if two are the same.
    """
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise wrong_type("names", names, "a list of str", "write names=['old', 'new']")
    if len(names) > len(paths):
        raise OptionError(
            f"names has {len(names)} names ({', '.join(map(shorten, names))}) for {counted(len(paths), 'tokenizer')}; expected "
            "at most one for each: remove the others, or name more tokenizers"
        )
    last_parts = [path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path for path in paths]
    found = list(map(visible, names))
    for number in range(len(names), len(paths)):
        name = last_parts[number]
        n_times = last_parts[: number + 1].count(name)
        found.append(name if n_times == 1 else f"{name} ({n_times})")
    twice = [name for name in found[: len(names)] if found.count(name) > 1]
    if twice:
        raise OptionError(f"names has {shorten(twice[0])} for two tokenizers; expected different names: change one of them")
    return found


def short_names(names: Sequence[str]) -> list[str]:
    """Return labels or paths without the folder that contains all of them."""
    n_shared = len(os.path.commonprefix([name.split("/")[:-1] for name in names]))  # noqa: RUF071 - of lists
    return ["/".join(name.split("/")[n_shared:]) for name in names]
