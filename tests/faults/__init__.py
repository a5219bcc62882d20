"""Fault injection: damaged files, killed processes and exhausted resources, by the thousand, from a seed.

`make faults` runs it and prints how many of each were tried and how many went wrong; `RELIABILITY.md` has the figures. It
is not part of `make test`, whose tests check each of these kinds of faults by some examples.
"""
