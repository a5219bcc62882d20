"""The command line of bpejit: thin commands around the library, installed as `bpejit_cli`.

Nothing heavy is imported before a command runs, so `bpejit --help` answers at once.
"""

from __future__ import annotations


def main() -> None:
    """Run the `bpejit` command with the arguments of the process."""
    from .app import program

    program.main(prog_name="bpejit")


__all__ = ["main"]
