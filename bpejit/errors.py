"""The exceptions of bpejit.

    BpejitError
    ├── PatternError(ValueError)        a split pattern that does not compile
    ├── CorpusError(ValueError)         input text that is missing, unreadable or empty
    ├── TrainingError(ValueError)       settings that no vocabulary can satisfy
    ├── TokenizerFormatError(ValueError)  a tokenizer file that is broken or says something we cannot do
    ├── TokenFileError(ValueError)      a token file that is broken or belongs to another tokenizer
    ├── TokenIdError(ValueError)        a token id that the vocabulary does not have
    ├── SpecialTokenError(ValueError)   a special token in text that must not have one, or one that does not exist
    ├── OptionError(ValueError)         options that cannot be, or that contradict each other
    ├── ArgumentTypeError(TypeError)    an argument of the wrong type, or one that does not exist
    ├── UnsupportedError(NotImplementedError)  what another package can do and bpejit cannot
    ├── OutputError(OSError)            a file that could not be written
    └── EngineError(RuntimeError)       a worker that died, or an engine that cannot run here

    BpejitWarning(UserWarning)          a result that is not quite what was asked for

Each message says what happened (with the path and line), what was found, what was expected, and what to do. It names arguments
of Python functions, at its beginning as in "dtype is 'int8'; expected ...", elsewhere as in "give `dtype=`"; the commands
replace such names by those of their options.
"""

import reprlib


class BpejitError(Exception):
    """Root of all errors that bpejit raises on purpose."""


class PatternError(BpejitError, ValueError):
    """A split pattern does not compile."""


class CorpusError(BpejitError, ValueError):
    """Input text is missing, unreadable or empty."""


class TrainingError(BpejitError, ValueError):
    """No vocabulary can satisfy the settings."""


class TokenizerFormatError(BpejitError, ValueError):
    """A tokenizer file is broken, or says something that bpejit cannot do exactly."""


class TokenFileError(BpejitError, ValueError):
    """A token file is broken, or belongs to another tokenizer."""


class TokenIdError(BpejitError, ValueError):
    """A token id is not in the vocabulary."""


class SpecialTokenError(BpejitError, ValueError):
    """A special token stands in text that must not have it, or does not exist."""


class OptionError(BpejitError, ValueError):
    """An option has a value that cannot be, or two contradict each other."""


class ArgumentTypeError(BpejitError, TypeError):
    """An argument has the wrong type, or the function has no such argument."""


class UnsupportedError(BpejitError, NotImplementedError):
    """Another package can do this, and bpejit's face for it cannot."""


class OutputError(BpejitError, OSError):
    """A file could not be written."""


class EngineError(BpejitError, RuntimeError):
    """A worker died, or the engine cannot run here."""


class BpejitWarning(UserWarning):
    """A result is not quite what was asked for, such as a vocabulary with fewer tokens."""


def shorten(value: object, limit: int = 80) -> str:
    """Return `repr(value)` for a message, with the middle left out where it is longer than `limit` characters.

    Parameters
    ----------
    value : object
    limit : int
        Characters of the result, at least 20.

    Examples
    --------
    >>> shorten("a" * 1000, 30)
    "'aaaaaaaaaaaa ... aaaaaaaaaaa'"
    """
    if isinstance(value, int) and value.bit_length() > 4 * limit:
        return f"an integer of {value.bit_length()} bits"  # Python refuses to print one of 5,000 digits
    if isinstance(value, str) and len(value) > limit:
        value = value[:limit] + value[-limit:]  # never the repr of a megabyte
    elif isinstance(value, bytes) and len(value) > limit:
        value = value[:limit] + value[-limit:]
    try:
        text = reprlib.repr(value) if isinstance(value, (list, tuple, set, frozenset, dict)) else repr(value)
    except ValueError:  # one of its items is such an integer
        return f"a {type(value).__name__} that cannot be shown"
    if "\n" in text:  # that of an array, say
        text = " ".join(line.strip() for line in text.splitlines())
    if len(text) <= limit:
        return text
    kept = limit - len(" ... ")
    return f"{text[: kept - kept // 2]} ... {text[len(text) - kept // 2 :]}"
