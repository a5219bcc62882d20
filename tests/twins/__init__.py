"""Readable twins of the kernels: equal results in plain Python, written for clarity, a file for each stage.

Read `splitting`, `counting`, `training`, `encoding` and `decoding`, in this order: they are the whole algorithm. Each kernel
has a function of its own name in one of the files (`project/test_house_rules.py` checks this). Where it is clearer, the twins
take and return plain Python values, and the tests convert them.
"""

from twins import (
    characters,
    counting,
    decoding,
    encoding,
    formats,
    inspection,
    python_objects,
    records,
    splitting,
    subwords,
    superwords,
    symbols,
    training,
)

__all__ = [
    "characters",
    "counting",
    "decoding",
    "encoding",
    "formats",
    "inspection",
    "python_objects",
    "records",
    "splitting",
    "subwords",
    "superwords",
    "symbols",
    "training",
]
