"""Compiled kernels: typed arrays in, typed arrays out.

Every kernel follows this contract:

- it is pure: no I/O, no Python objects, no printing, no exceptions; it returns a number or a status code;
- the caller owns the memory: outputs and scratch space are arguments, and a kernel that runs out of space returns a
  status (see `constants`) and can be called again after the caller has enlarged them;
- its docstring gives dtype, shape and direction (in, out, in-out, scratch) of each array, its cost, and what is not
  checked;
- `tests/twins` has a readable function of the same name that returns the same result.

Nothing is imported here, so that `import bpejit` stays free of numba.
"""
