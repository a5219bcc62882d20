"""Entry point of `python -m cli` in a checkout."""

from . import main

main()
