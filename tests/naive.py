"""Readable twins of the kernels: the same results in plain Python, with no thought for speed.

Each kernel has a function of its own name here (`test_house_rules.py` sees to it). The twins take and return plain
Python values where that reads better; the tests convert.
"""

from __future__ import annotations

# ---- splitting -------------------------------------------------------------------------------------------------------

# ---- counting --------------------------------------------------------------------------------------------------------

# ---- training --------------------------------------------------------------------------------------------------------

# ---- encoding --------------------------------------------------------------------------------------------------------
