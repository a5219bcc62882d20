"""Check the arguments of public functions.

Each function returns the argument, converted to the type that the code needs, or raises an error. All messages begin with the
name of the argument: "vocab_size is '500', a str; expected a whole number from 257 up: give it as a number". The commands
replace it with the name of their option (see `with_option_names` in `cli/reporting.py`).

Each check takes less than a microsecond. Functions that take only a few microseconds in total test for the most common types
themselves, and call these checks for others.
"""

from __future__ import annotations

import codecs
import functools
import inspect
import operator
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from inspect import Signature
from typing import Any, ParamSpec, TypeVar

from bpejit.errors import ArgumentTypeError, BpejitError, OptionError, shorten
from bpejit.jit.listening import in_notebook
from bpejit.progress_bar import ProgressBar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

LONGEST_PATH = 4096
"""Maximum number of characters in a path. No common file system supports longer ones."""

LARGE = 2**31 - 1
"""An upper limit of at least this much is mentioned only if it is exceeded."""

OTHER_NAMES = {"num_processes": "workers", "num_workers": "workers", "n_jobs": "workers", "num_threads": "workers"}
"""Names that other libraries use for arguments of `train`."""


def described(value: object) -> str:
    """Return a value and its type for a message, such as `'500', a str`."""
    if value is None:
        return "None"
    name = type(value).__name__
    if name not in ("bytes", "bool_"):
        name = f"{'an' if name[0] in 'aeiouAEIOU' or name == 'ndarray' else 'a'} {name}"
    return f"{shorten(value)}, {name}"


def wrong_type(name: str, value: object, expected: str, action: str) -> ArgumentTypeError:
    """Return the error for an argument of the wrong type."""
    return ArgumentTypeError(f"{name} is {described(value)}; expected {expected}: {action}")


def whole_number(
    name: str,
    value: Any,
    *,
    least: int | None = None,
    most: int | None = None,
    note: str = "",
    error: type[BpejitError] = OptionError,
) -> int:
    """Return a whole number as an `int`: any integer, including NumPy integers, but not a bool.

    A number that is not from `least` to `most` raises `error`; `note` is the reason for the range, for the message.
    """
    expected = _range(least, most) + (f" ({note})" if note else "")
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise wrong_type(name, value, expected, "give it as a number") from None
    if most is not None and number > most:
        raise error(f"{name} is {shorten(number)}; expected {_range(least, most, whole=True)}: choose a smaller number")
    if least is not None and number < least:
        raise error(f"{name} is {shorten(number)}; expected {expected}: choose another number")
    return number


def optional_whole_number(
    name: str, value: Any, *, least: int | None = None, most: int | None = None, error: type[BpejitError] = OptionError
) -> int | None:
    """Return None, or the result of `whole_number`."""
    return None if value is None else whole_number(name, value, least=least, most=most, error=error)


def _range(least: int | None, most: int | None, *, whole: bool = False) -> str:
    if most is not None and most >= LARGE and not whole:
        most = None
    if least is None:
        return "a whole number" if most is None else f"a whole number up to {most}"
    return f"a whole number from {least} up" if most is None else f"a whole number from {least} to {most}"


def flag(name: str, value: Any) -> bool:
    """Return a bool. NumPy bools are accepted."""
    if isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b":
        return bool(value)
    raise wrong_type(name, value, "True or False", "give one of these")


def string(name: str, value: Any) -> str:
    """Return a `str`."""
    if isinstance(value, str):
        return value
    action = "decode it, for example with .decode('utf-8')" if isinstance(value, (bytes, bytearray)) else "give it as text"
    raise wrong_type(name, value, "a str", action)


def optional_string(name: str, value: Any) -> str | None:
    """Return a `str`, or None."""
    return None if value is None else string(name, value)


def regex_timeout(value: Any) -> float | None:
    """Return the argument `regex_timeout`, seconds for one MB; None for no limit, also if infinity is given."""
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0):
        return None if value is None or value == float("inf") else float(value)
    raise OptionError(
        f"regex_timeout is {described(value)}; expected a number of seconds above 0 for one MB of text, or None for no limit: "
        "give one of these"
    )


def choice(name: str, value: Any, names: Iterable[str], *, error: type[BpejitError] = OptionError) -> str:
    """Return a `str` if it is one of `names`."""
    known = list(names)
    expected = f"one of {', '.join(map(repr, known))}"
    if not isinstance(value, str):
        raise wrong_type(name, value, expected, "choose one of these")
    if value not in known:
        raise error(f"{name} is {shorten(value)}; expected {expected}: choose one of these")
    return value


def path(name: str, value: Any, *, error: type[BpejitError] = OptionError) -> str:
    """Return a path as a `str`.

    It is a `str` or an `os.PathLike` of one; a string that cannot be a path raises `error`.
    """
    found = value if isinstance(value, str) else os.fspath(value) if isinstance(value, os.PathLike) else None
    if not isinstance(found, str):
        action = "decode it with os.fsdecode" if isinstance(value, bytes) else "give the path of a file or folder"
        raise wrong_type(name, value, "a path, a str or an os.PathLike", action)
    if not found:
        raise error(f"{name} is empty; expected a path: give the path of a file or folder")
    if "\0" in found or len(found) > LONGEST_PATH or not (found.isascii() or _is_encodable(found)):
        length = f" ({len(found):,} characters)" if len(found) > LONGEST_PATH else ""
        raise error(
            f"{name} is {shorten(found)}{length}, which cannot be a path; expected the path of a file or folder: "
            "write the text to a file, and give its path"
        )
    return found


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def looks_like_text(value: str) -> bool:
    """Return True if the path of a missing file is probably text that was passed by mistake."""
    return "\n" in value or len(value) > 255 or (value.count(" ") >= 3 and os.sep not in value)


def pattern(name: str, value: Any) -> str | tuple[str, ...]:
    """Return a split pattern, a `str` or a sequence of them, as a `str` or a tuple."""
    if isinstance(value, str):
        return value
    if isinstance(value, (tuple, list)) and all(isinstance(stage, str) for stage in value):
        return tuple(value)
    raise wrong_type(name, value, "the name of a preset, a regular expression, or a tuple of these", "give it as a str")


def is_iterable(value: Any) -> bool:
    """Return True for an iterable of items, and False for text, bytes, arrays without dimensions, mappings and tables."""
    return (
        isinstance(value, Iterable)
        and not isinstance(value, (str, bytes, bytearray, memoryview))
        and getattr(value, "ndim", 1) != 0
        and column_names(value) is None
    )


def column_names(value: Any) -> list[Any] | None:
    """Return the names of the columns of a mapping, a data frame, a table, or a row of one; None for any other value.

    Iterating over most of these yields the names, and over the others all columns, so they are never lists of texts.
    """
    if type(value) is list or type(value) is tuple:
        return None
    if isinstance(value, Mapping):
        return list(value)
    has_dtype = getattr(value, "dtype", None) is not None  # `keys` of a column of pandas returns its index
    for found in (
        getattr(value, "column_names", None),  # data sets and pyarrow, whose `columns` are the columns themselves
        getattr(value, "columns", None),
        getattr(value, "_fields", None),  # named tuples
        getattr(getattr(value, "dtype", None), "names", None),
        None if has_dtype else getattr(value, "keys", None),  # rows of databases
    ):
        names = found() if callable(found) and not isinstance(value, type) else found
        if isinstance(names, Iterable):
            return list(names)
    return None


def _chosen_column(value: Any, names: list[Any], *, is_item: bool) -> str:
    """Return how to get the texts of something that has columns, for a message."""
    name = "text" if "text" in names else names[0] if names else "text"
    key = shorten(name, 40)
    if is_item:
        row = f"row.{name}" if isinstance(value, tuple) else f"row[{key}]"
        return f"give the texts of the rows, such as ({row} for row in rows)"
    if not isinstance(value, Mapping):
        is_frame = hasattr(value, "columns") and not hasattr(value, "column_names")
        column = f"frame[{key}].to_list()" if is_frame else f"dataset[{key}]"
        return f"give the texts of one column, such as {column}"
    found = value[name] if name in names else ()
    if isinstance(found, (str, bytes)):
        return f"give the texts, such as [row[{key}]] of one row, or texts.values()"
    return f"give the texts of one column, such as columns[{key}]"


def special_tokens(name: str, value: Any, *, error: type[BpejitError] = OptionError) -> list[str]:
    """Return special tokens as a list without duplicates, in the order given.

    Sets are refused because they have no order. An empty token raises `error`.
    """
    expected = "a list of str"
    if isinstance(value, str):
        raise wrong_type(name, value, expected, f"give [{shorten(value)}]")
    if isinstance(value, (set, frozenset)):
        raise wrong_type(name, value, f"{expected}, whose order gives the ids", "give a list, for example sorted(...)")
    if isinstance(value, Mapping) or not is_iterable(value):
        raise wrong_type(name, value, expected, "give a list, [] for none")
    tokens = list(value)
    for index, token in enumerate(tokens):
        if not isinstance(token, str):
            raise wrong_type(f"{name}[{index}]", token, "a str", "give each special token as text")
        if not token:
            raise error(f"{name}[{index}]: a special token is empty; expected at least one character: remove it")
    return list(dict.fromkeys(tokens))


def text(name: str, value: Any) -> str | memoryview | bytes:
    """Return text. A `str` or `bytes` is returned unchanged, any other buffer as bytes or a memoryview.

    A buffer has bytes and one dimension: that of bytes, bytearray, memoryview, or a uint8 array.
    """
    if isinstance(value, (str, bytes)):
        return value
    try:
        view = memoryview(value)
    except TypeError:
        view = None
    if view is None or view.ndim != 1 or view.format not in ("B", "c"):
        names = column_names(value)
        if view is None or names is not None:
            action = "give one text" if names is None else _chosen_column(value, names, is_item=True)
            raise wrong_type(name, value, "text, as a str or bytes", action)
        kind = f"an array of {view.ndim} dimensions with items of format {view.format!r}"
        raise ArgumentTypeError(
            f"{name} is {described(value)}, {kind}; expected text, as a str or bytes: give bytes, or a uint8 array of one "
            "dimension"
        )
    return view.cast("B") if view.c_contiguous else bytes(view)


def as_bytes(name: str, value: Any) -> str | bytes:
    """Return text as `str` or `bytes`."""
    found = text(name, value)
    return bytes(found) if isinstance(found, memoryview) else found


def texts(name: str, value: Any) -> Any:
    """Return an iterable of texts unchanged. A single text, a mapping and a table are errors.

    An item of an iterable has a name such as `texts[0]`.
    """
    if is_iterable(value):
        return value
    names = column_names(value)
    action = "give a list or another iterable, of one text if there is only one"
    if names is not None:
        action = _chosen_column(value, names, is_item=name.endswith("]"))
    raise wrong_type(name, value, "a list of texts", action)


def ids(name: str, value: Any) -> Any:
    """Return an iterable or array of token ids unchanged. Text or a single number is an error."""
    if not (isinstance(value, memoryview) or is_iterable(value)):
        raise wrong_type(name, value, "a list of token ids, or an array of them with one dimension", "give a list")
    return value


def error_handler(name: str, value: Any) -> str:
    """Return the name of an error handler of `bytes.decode`."""
    string(name, value)
    try:
        codecs.lookup_error(value)
    except (LookupError, ValueError):  # the latter for a NUL
        expected = "'replace', 'strict', 'ignore', 'backslashreplace' or 'surrogateescape'"
        raise OptionError(f"{name} is {shorten(value)}; expected {expected}: choose one of these") from None
    return str(value)


def no_progress(stage: str, done: int, total: int | None, unit: str) -> None:
    """Ignore a report on progress."""


def showing_progress(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a function so that `progress=True` shows a bar while it runs, where there is a terminal or a notebook."""

    @functools.wraps(function)
    def shown(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        has_bar = in_notebook() or (sys.stderr is not None and sys.stderr.isatty())
        if options.get("progress") is not True or not has_bar:
            return function(*args, **options)
        with closing(ProgressBar()) as bar:
            options["progress"] = bar
            return function(*args, **options)

    return shown


def progress(value: Any) -> Callable[[str, int, int | None, str], None]:
    """Return the argument `progress` as a callback: by default a no-op, and for True one that writes a line to standard error.

    The decorator `showing_progress` replaces True where there may be a bar instead.
    """
    if value is None or value is False:
        return no_progress
    if value is True:
        return _ProgressLine()
    if callable(value):
        return value  # type: ignore[no-any-return]
    action = "give it, such as `progress=print`, or leave it out"
    raise wrong_type("progress", value, "True, or a function that is called as `progress(stage, done, total, unit)`", action)


class _ProgressLine:
    """A line about the current stage, which is written again ten times a second: `count: 45 % of 1,234,567 bytes`."""

    def __init__(self) -> None:
        self._shown = ""
        self._next = 0.0
        self._ended = True

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        """Write the line, or a new one for a new stage."""
        now = time.perf_counter()
        is_new = not self._shown.startswith(f"{stage}: ")
        text = f"{stage}: {100 * done // total} % of {total:,} {unit}" if total else f"{stage}: {done:,} {unit}"
        if sys.stderr is None or text == self._shown or (now < self._next and not is_new and done != total):
            return
        start = "\n" if is_new and self._shown and not self._ended else "\r"
        rest = " " * (len(self._shown) - len(text)) if not is_new else ""
        self._ended = done == total
        print(start + text + rest, end="\n" if self._ended else "", file=sys.stderr, flush=True)  # noqa: T201
        self._shown, self._next = text, now + 0.1

    def __del__(self) -> None:
        """End the line of a stage that ended early."""
        if not self._ended and sys.stderr is not None:
            print(file=sys.stderr, flush=True)  # noqa: T201


def instance(name: str, value: Any, kind: type, action: str) -> Any:
    """Return an instance of `kind`."""
    if isinstance(value, kind):
        return value
    expected = "dict" if kind is Mapping else kind.__name__
    raise wrong_type(name, value, f"a {expected}", action)


def bound(function_name: str, signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise if arguments do not match the signature of the function that they are passed on to.

    `function_name` is the one that the user called.
    """
    try:
        signature.bind(*args, **kwargs)
    except TypeError as cause:
        known = [name for name, parameter in signature.parameters.items() if parameter.kind is not parameter.VAR_KEYWORD]
        wrong = next((name for name in kwargs if name not in known), None)
        by_position = [name for name, one in signature.parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
        if by_position[:1] in (["self"], ["cls"]):  # a method
            args, known, by_position = args[1:], known[1:], by_position[1:]
        by_name = [name for name in known if name not in by_position]
        if wrong is None and len(args) > len(by_position) and by_name:
            given = shorten(args[len(by_position)])
            raise ArgumentTypeError(
                f"{function_name}() has {len(args)} unnamed arguments; expected {', '.join(by_position)}, and the others "
                f"by name: write {by_name[0]}={given} if {given} is that one"
            ) from None
        if wrong is None:
            raise ArgumentTypeError(f"{function_name}(): {cause}; expected {', '.join(known)}: correct the call") from None
        from difflib import get_close_matches

        other = OTHER_NAMES.get(wrong)
        near = [other] if other in known else get_close_matches(wrong, known, n=2)
        near = near or [name for name in known if name.startswith(wrong)][:2]
        expected, action = ", ".join(known), "correct its name, or leave it out"
        if near:  # thirty names would hide them
            expected, action = " or ".join(near), f"use {near[0]}="
        raise ArgumentTypeError(f"{function_name}() has no argument {shorten(wrong)}; expected {expected}: {action}") from None


def explain_wrong_arguments(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a function so that a call that does not match its signature raises the error of `bound`."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        bound(function.__name__, signature, args, kwargs)
        return function(*args, **kwargs)

    return checked
