"""Import packages that bpejit needs only for some inputs and outputs."""

from __future__ import annotations

import importlib
from typing import Any

from bpejit.errors import BpejitError, CorpusError


def import_extra(module: str, purpose: str, *, extra: str = "data", error: type[BpejitError] = CorpusError) -> Any:
    """Import a module of a package that an extra installs.

    Parameters
    ----------
    module : str
    purpose : str
        What needs it, for the message, such as "the input" and its name.
    extra : str
        Empty if none has the package.
    error : type
        The exception to raise.

    Raises
    ------
    BpejitError
        If the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as cause:
        package = module.partition(".")[0]
        install = f"'bpejit[{extra}]'" if extra else package
        raise error(
            f"{purpose} needs the package `{package}`, which is not installed ({cause}); expected it: "
            f"run `pip install {install}`"
        ) from cause
