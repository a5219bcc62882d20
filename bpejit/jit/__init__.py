"""The JIT layer: calling kernels (`dispatch`), compiling (`lowering`, `compiler`), storing (`cache`, and `stored_arrays`
for tables) and loading (`loader`).

Only `lowering`, `compiler` and `ordinary` import Numba, and they are imported only when a kernel has to be compiled.
"""

MISMATCH = -0x6B65_726E_656C_2121
"""Result of compiled code whose arguments include an array of a type other than it was compiled for."""
