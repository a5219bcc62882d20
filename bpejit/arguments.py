"""Checks of the arguments of public functions: each returns the argument in the form that the code needs, or raises.

All messages begin with the name of the argument, as in "vocab_size is '500', a str; expected a whole number from 257 up: give
it as a number". The commands replace that name by the one of their option (see `OptionNames` in `cli/option_names.py`).

The checks cost less than a microsecond each. Functions that take only a few microseconds in all try the usual types first and
call these checks for the rest.
"""

from __future__ import annotations

import codecs
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from inspect import Signature
from typing import Any

from bpejit.errors import ArgumentTypeError, BpejitError, OptionError, shorten

LONGEST_PATH = 4096
"""Characters of a path; no file system of today takes longer ones."""

LARGE = 2**31 - 1
"""An upper limit from here on is only named where it is exceeded."""

OTHER_NAMES = {"num_processes": "workers", "num_workers": "workers", "n_jobs": "workers", "num_threads": "workers"}
"""What arguments of `train` are called elsewhere."""


def described(value: object) -> str:
    """Return a value and its type for a message: `'500', a str`."""
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
    """Return a whole number as an `int`.

    Parameters
    ----------
    name : str
        The argument.
    value
        Any integer, including those of NumPy; a bool is none.
    least, most : int, optional
        The range.
    note : str
        Why the range is as it is.
    error : type
        What to raise for a number out of the range.
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
    """Return a whole number as `whole_number` does, or None."""
    return None if value is None else whole_number(name, value, least=least, most=most, error=error)


def _range(least: int | None, most: int | None, *, whole: bool = False) -> str:
    if most is not None and most >= LARGE and not whole:
        most = None
    if least is None:
        return "a whole number" if most is None else f"a whole number up to {most}"
    return f"a whole number from {least} up" if most is None else f"a whole number from {least} to {most}"


def flag(name: str, value: Any) -> bool:
    """Return a bool, which may be one of NumPy."""
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


def choice(name: str, value: Any, names: Iterable[str], *, error: type[BpejitError] = OptionError) -> str:
    """Return a `str` that is one of `names`."""
    known = list(names)
    expected = f"one of {', '.join(map(repr, known))}"
    if not isinstance(value, str):
        raise wrong_type(name, value, expected, "choose one of these")
    if value not in known:
        raise error(f"{name} is {shorten(value)}; expected {expected}: choose one of these")
    return value


def path(name: str, value: Any, *, error: type[BpejitError] = OptionError) -> str:
    """Return a path as a `str`.

    Parameters
    ----------
    name : str
    value
        A `str` or an `os.PathLike` of one.
    error : type
        What to raise for a text that cannot be a path.
    """
    found = value if isinstance(value, str) else os.fspath(value) if isinstance(value, os.PathLike) else None
    if not isinstance(found, str):
        action = "decode it with os.fsdecode" if isinstance(value, bytes) else "give the path of a file or folder"
        raise wrong_type(name, value, "a path, a str or an os.PathLike", action)
    if not found:
        raise error(f"{name} is empty; expected a path: give the path of a file or folder")
    if "\0" in found or len(found) > LONGEST_PATH:
        length = f" ({len(found):,} characters)" if len(found) > LONGEST_PATH else ""
        raise error(
            f"{name} is {shorten(found)}{length}, which cannot be a path; expected the path of a file or folder: "
            "write the text to a file, and give its path"
        )
    return found


def looks_like_text(value: str) -> bool:
    """Whether a path of which there is no file is probably text that was passed in place of a path."""
    return "\n" in value or len(value) > 255 or (value.count(" ") >= 3 and os.sep not in value)


def pattern(name: str, value: Any) -> str | tuple[str, ...]:
    """Return a split pattern, a `str` or a sequence of them, as a `str` or a tuple."""
    if isinstance(value, str):
        return value
    if isinstance(value, (tuple, list)) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise wrong_type(name, value, "the name of a preset, a regular expression, or a tuple of these", "give it as a str")


def special_tokens(name: str, value: Any, *, error: type[BpejitError] = OptionError) -> list[str]:
    """Return special tokens as a list without repetitions, in the order given.

    Parameters
    ----------
    name : str
    value
        An iterable of `str`; not a set, which has no order.
    error : type
        What to raise for a token that is empty.
    """
    expected = "a list of str"
    if isinstance(value, str):
        raise wrong_type(name, value, expected, f"give [{shorten(value)}]")
    if isinstance(value, (set, frozenset)):
        raise wrong_type(name, value, f"{expected}, whose order gives the ids", "give a list, for example sorted(...)")
    if isinstance(value, (bytes, bytearray, Mapping)) or not isinstance(value, Iterable):
        raise wrong_type(name, value, expected, "give a list, [] for none")
    tokens = list(value)
    for place, token in enumerate(tokens):
        if not isinstance(token, str):
            raise wrong_type(f"{name}[{place}]", token, "a str", "give each special token as text")
        if not token:
            raise error(f"{name}[{place}]: a special token is empty; expected at least one character: remove it")
    return list(dict.fromkeys(tokens))


def text(name: str, value: Any) -> str | memoryview | bytes:
    """Return text, a `str` or bytes of any kind; what is not `str` or `bytes` comes back as bytes or as a view of bytes.

    Parameters
    ----------
    name : str
    value
        `str`, or an object with a buffer of bytes in one dimension: bytes, bytearray, memoryview, a uint8 array.
    """
    if isinstance(value, (str, bytes)):
        return value
    try:
        view = memoryview(value)
    except TypeError:
        raise wrong_type(name, value, "text, as a str or bytes", "give one text") from None
    if view.ndim != 1 or view.format not in ("B", "c"):
        kind = f"an array of {view.ndim} dimensions with items of format {view.format!r}"
        raise ArgumentTypeError(
            f"{name} is {described(value)}, {kind}; expected text, as a str or bytes: give bytes, or a uint8 array of one "
            "dimension"
        )
    return view.cast("B") if view.c_contiguous else bytes(view)


def as_bytes(name: str, value: Any) -> str | bytes:
    """Return text, as `text` does, but bytes of all kinds as `bytes`."""
    found = text(name, value)
    return bytes(found) if isinstance(found, memoryview) else found


def texts(name: str, value: Any) -> Iterable[Any]:
    """Return an iterable of texts as it is; a single text in its place is an error."""
    if isinstance(value, (str, bytes, bytearray, memoryview)) or not isinstance(value, Iterable):
        raise wrong_type(name, value, "a list of texts", "give a list, of one text if there is only one")
    return value


def ids(name: str, value: Any) -> Any:
    """Return token ids, any iterable or array of numbers, as they are; text or a single number in their place is an error."""
    if isinstance(value, (str, bytes, bytearray)) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
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


def function(name: str, value: Any) -> Callable[..., Any] | None:
    """Return a function, or None."""
    if value is None or callable(value):
        return value  # type: ignore[no-any-return]
    raise wrong_type(name, value, "a function", "give one, or leave it out")


def instance(name: str, value: Any, kind: type, action: str) -> Any:
    """Return an object of a class."""
    if isinstance(value, kind):
        return value
    raise wrong_type(name, value, f"a {kind.__name__}", action)


def bound(function_name: str, signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise if arguments do not fit the signature of a function that is called by another name.

    Parameters
    ----------
    function_name : str
        What the caller called.
    signature : Signature
    args : tuple
    kwargs : dict
    """
    try:
        signature.bind(*args, **kwargs)
    except TypeError as cause:
        known = [name for name, parameter in signature.parameters.items() if parameter.kind is not parameter.VAR_KEYWORD]
        wrong = next((name for name in kwargs if name not in known), None)
        if wrong is None:
            raise ArgumentTypeError(f"{function_name}(): {cause}; expected {', '.join(known)}: correct the call") from None
        other = OTHER_NAMES.get(wrong)
        action = f"use {other}=" if other in known else "correct its name, or leave it out"
        raise ArgumentTypeError(
            f"{function_name}() has no argument {shorten(wrong)}; expected {', '.join(known)}: {action}"
        ) from None
