"""Run the command line: `python -m bpejit`. No other module of the library imports it."""

import sys


def main() -> None:
    """Run the command line, or exit with a message if it is not installed."""
    try:
        from bpejit_cli import main as run
    except ModuleNotFoundError as error:
        if error.name != "bpejit_cli":
            raise
        sys.exit("bpejit: error: the command line is not installed: run `pip install .`, or `python -m cli` in a checkout")
    run()


if __name__ == "__main__":
    main()
