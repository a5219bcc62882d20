"""The exceptions of bpejit.

Each message states what happened (with path and line), what was found, what was expected, and what to do. It names arguments
of Python functions: at the beginning as in "dtype is 'int8'; expected ...", elsewhere as in "give `dtype=`". The commands
replace these names with the names of their options.

Names of files, columns and fields come from strangers, and may contain characters that move the cursor of a terminal or change
the order of what is around them. `visible` makes these visible. Messages pass through it when they are shown, so that the
code that makes them inserts names as they are.
"""

import reprlib

NAMED_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape(character: str) -> str:
    r"""Return an escape for a character.

    A byte that is not valid UTF-8 (a surrogate of `surrogateescape`) is `\xNN`; other characters are `\uNNNN`.

    Examples
    --------
    >>> escape("\x1b")
    '\\u001b'
    """
    point = ord(character)
    if 0xDC80 <= point <= 0xDCFF:
        return f"\\x{point - 0xDC00:02x}"
    return NAMED_ESCAPES.get(character) or (f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}")


_INVISIBLE = (
    *(range(0x20), range(0x7F, 0xA0)),  # control characters
    *((0xAD, 0x61C, 0x180E, 0x200B), range(0x200E, 0x2010), range(0x2028, 0x202F), range(0x2060, 0x2070)),  # order, line ends
    *(range(0xD800, 0xE000), (0xFEFF,), range(0xFFF9, 0xFFFC), range(0x1D173, 0x1D17B)),
)
"""Code points that a name is not shown with. Joiners, which some scripts and emoji need, and spaces of any width are shown."""

_ESCAPES: dict[int, str] = {}


def visible(text: str) -> str:
    r"""Return text in which characters that control a terminal, or that cannot be seen, are escapes, as in tokens.

    Examples
    --------
    >>> visible("a\x1b[2J \u4f60")
    'a\\u001b[2J \u4f60'
    """
    if text.isprintable():
        return text
    if not _ESCAPES:
        _ESCAPES.update((point, escape(chr(point))) for points in _INVISIBLE for point in points)
    return text.translate(_ESCAPES)


class _Shown:
    """Base of exceptions and warnings whose message is shown with visible names; `args` has it as it is."""

    def __str__(self) -> str:
        text = super().__str__()
        if text.isprintable():
            return text
        # A name between backticks may have a line break; elsewhere they separate the lines of a message of another package.
        parts = text.split("`")
        return "`".join(
            visible(part) if number % 2 else "\n".join(map(visible, part.split("\n"))) for number, part in enumerate(parts)
        )


class BpejitError(_Shown, Exception):
    """Base class of all exceptions that bpejit raises deliberately."""


class PatternError(BpejitError, ValueError):
    """A split pattern does not compile."""


class CorpusError(BpejitError, ValueError):
    """Input text is missing, unreadable or empty."""


class CountsError(BpejitError, ValueError):
    """A counts file is damaged, or its settings are not those that are needed."""


class TrainingError(BpejitError, ValueError):
    """No vocabulary can satisfy the settings."""


class TokenizerFormatError(BpejitError, ValueError):
    """A tokenizer file is broken, or uses a feature that bpejit does not support exactly."""


class TokenFileError(BpejitError, ValueError):
    """A token file is broken, or was written by another tokenizer."""


class TokenIdError(BpejitError, ValueError):
    """A token id is not in the vocabulary."""


class SpecialTokenError(BpejitError, ValueError):
    """A text contains a disallowed special token, or a special token does not exist."""


class OptionError(BpejitError, ValueError):
    """An option has an invalid value, or two options contradict each other."""


class ArgumentTypeError(BpejitError, TypeError):
    """An argument has the wrong type, or the function has no such argument."""


class UnsupportedError(BpejitError, NotImplementedError):
    """A feature of another package is not supported by bpejit's interface for it."""


class OutputError(BpejitError, OSError):
    """A file could not be written."""


class EngineError(BpejitError, RuntimeError):
    """A worker died, or the engine cannot run here."""


class BpejitWarning(_Shown, UserWarning):
    """A result differs from the request, such as a vocabulary with fewer tokens."""


def warn_user(message: str) -> None:
    """Give a BpejitWarning with the place outside of this package where it was called."""
    import sys
    import warnings

    level, frame = 2, sys._getframe(1)  # the argument `skip_file_prefixes` needs Python 3.12
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, BpejitWarning, stacklevel=level)


def shorten(value: object, limit: int = 80) -> str:
    """Return `repr(value)` for a message, shortened in the middle to at most `limit` characters.

    Parameters
    ----------
    value : object
    limit : int
        Maximum number of characters of the result, at least 20.

    Examples
    --------
    >>> shorten("a" * 1000, 30)
    "'aaaaaaaaaaaa ... aaaaaaaaaaa'"
    """
    if isinstance(value, int) and value.bit_length() > 4 * limit:
        return f"an integer of {value.bit_length()} bits"  # Python refuses to print one of 5,000 digits
    if isinstance(value, (str, bytes)) and len(value) > limit:
        value = value[:limit] + value[-limit:]  # type: ignore[operator]  # never the repr of a megabyte
    try:
        text = reprlib.repr(value) if isinstance(value, (list, tuple, set, frozenset, dict)) else repr(value)
    except ValueError:  # one of its items is such an integer
        return f"a {type(value).__name__} that cannot be shown"
    if "\n" in text:  # such as the repr of an array
        text = " ".join(line.strip() for line in text.splitlines())
    if len(text) <= limit:
        return text
    kept = limit - len(" ... ")
    return f"{text[: kept - kept // 2]} ... {text[len(text) - kept // 2 :]}"
