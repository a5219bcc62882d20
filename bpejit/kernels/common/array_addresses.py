"""Named tuples of arrays, passed to a kernel as one array of addresses.

A call checks every array among its arguments. Encoding a text takes thirty arrays, and checking them would take longer than
encoding a sentence. So `encode_text` receives three arrays of addresses, and rebuilds the tuples itself. The caller of such a
kernel must keep the arrays alive.
"""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import array_at


def make_reader(kind: type[tuple[Any, ...]]) -> Any:
    """Return an inlined kernel that rebuilds a named tuple from its addresses (`bpejit.jit.dispatch.addresses_of`).

    Parameters
    ----------
    kind : type
        A NamedTuple whose fields are annotated as `NDArray[np.uint32]`, or with another element type.
    """
    names = {}
    for field, hint in get_type_hints(kind).items():
        (element,) = get_args(get_args(hint)[1])  # NDArray[element] is ndarray[shape, dtype[element]]
        names[field] = element
    # Numba needs the element types as names, and one expression for each field. Each function has a name of its own, since
    # Numba's cache takes functions of one name, one line and as many fields for the same.
    name = f"read_{kind.__name__}"
    fields = ", ".join(f"array_at(addresses, {number}, {field})" for number, field in enumerate(names))
    scope = {**names, "kind": kind, "array_at": array_at, "__name__": __name__}
    exec(compile(f"def {name}(addresses):\n    return kind({fields})\n", __file__, "exec"), scope)
    return inline(scope[name])  # type: ignore[no-any-return]
