"""`python -m cli` from a checkout."""

from . import main

main()
