"""How kernels run: called (`dispatch`), compiled (`lowering`, `compiler`), stored (`cache`) and loaded again (`loader`).

Only `lowering`, `compiler` and `ordinary` import Numba, and they are imported only where something has to be compiled.
"""

MISMATCH = -0x6B65_726E_656C_2121
"""Returned by compiled code that is given an array of another type than it was compiled for."""
