"""Fault injection: thousands of damaged files, killed processes and exhausted resources, generated from a seed.

`make faults` runs it and prints the numbers of cases and of failures for each; `docs/reliability.md` has the figures. It
is not part of `make test`, which has some examples of each kind of fault.
"""
