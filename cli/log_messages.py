"""Log messages of the library on standard error, for `--verbose`."""

from __future__ import annotations

import logging
from collections.abc import Callable

import click

from .output_lines import write_message


class LogHandler(logging.Handler):
    """Handler that writes log messages to standard error.

    Attributes
    ----------
    write : callable
        Function that writes one line. `Progress` replaces it while a progress bar is shown.
    """

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.write: Callable[[str], None] = write_message

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message."""
        self.write(f"{record.levelname.lower()}: {record.getMessage()}")


def show_log_messages(ctx: click.Context) -> LogHandler:
    """Show the log messages of the library until a context is closed; return the handler."""
    logger = logging.getLogger("bpejit")
    handler, level = LogHandler(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)

    def stop() -> None:
        logger.removeHandler(handler)
        logger.setLevel(level)

    ctx.call_on_close(stop)
    return handler
