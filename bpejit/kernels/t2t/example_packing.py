"""Pack examples into longer ones: choose the packed example of each, then copy the ids."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.kernels.constants import ONE, ZERO


@kernel
def assign_packs(sizes, alone, packed_length, spacing, queue, totals, packs, complete):
    """Assign each example to a packed example, the first of those in a queue in which it fits.

    Parameters
    ----------
    sizes : int64[features * n], in
        The number of ids of each example, feature by feature.
    alone : uint8[n], in
        1 for an example that is a packed example by itself, and does not enter the queue.
    packed_length, spacing : int
    queue : int64[queue_size], scratch
    totals : int64[features * queue_size], scratch
    packs : int64[n], out
        The number of the packed example of each example, in the order in which they begin.
    complete : int64[n], out
        The numbers of the packed examples, in the order in which they are complete.

    Returns
    -------
    int
        The number of packed examples.

    Notes
    -----
    Up to `queue_size` comparisons for each example.
    """
    n = np.uint64(alone.size)
    slots = np.uint64(queue.size)
    n_features = np.uint64(totals.size) // slots
    head, used, n_complete = ZERO, ZERO, ZERO
    n_packs = np.int64(0)
    for i in range(n):
        i = np.uint64(i)
        if alone[i] != 0:
            packs[i] = n_packs
            complete[n_complete] = n_packs
            n_complete += ONE
            n_packs += 1
            continue
        place = ZERO
        slot = head
        while place < used:
            fits = True
            for feature in range(n_features):
                feature = np.uint64(feature)
                fits &= totals[feature * slots + slot] + spacing + sizes[feature * n + i] <= packed_length
            if fits:
                break
            place += ONE
            slot = slot + ONE if slot + ONE < slots else ZERO
        gap = spacing
        if place == used:
            gap = 0
            if used == slots:
                complete[n_complete] = queue[head]
                n_complete += ONE
                slot = head
                head = head + ONE if head + ONE < slots else ZERO
            else:
                used += ONE
            queue[slot] = n_packs
            n_packs += 1
            for feature in range(n_features):
                totals[np.uint64(feature) * slots + slot] = 0
        packs[i] = queue[slot]
        for feature in range(n_features):
            feature = np.uint64(feature)
            totals[feature * slots + slot] += gap + sizes[feature * n + i]
    while used > ZERO:
        complete[n_complete] = queue[head]
        n_complete += ONE
        head = head + ONE if head + ONE < slots else ZERO
        used -= ONE
    return n_packs


@kernel
def fill_packs(ids, begins, sizes, order, packs, starts, spacing, out, segments, positions):
    """Copy the ids of one feature to packed examples.

    Parameters
    ----------
    ids : int64[:], in
    begins, sizes : int64[n], in
        Where the ids of each example begin, and their number.
    order : int64[n], in
        The examples in the order in which they are copied.
    packs : int64[n], in
        For each of them the number of its packed example; it never falls.
    starts : int64[packs + 1], in
        Where each packed example starts in the output.
    spacing : int
    out : int64[starts[packs]], in-out
        The ids; 0 on entry.
    segments, positions : uint32[starts[packs]], in-out
        0 on entry. The number of the original example, from 1; and the position in it.

    Notes
    -----
    Some 1 ns per id. As in the published code, the number is one more than that of the id before the spacing, and starts from 1
    again after an empty example.
    """
    gap = np.uint64(spacing)
    end = ZERO
    before = np.int64(-1)
    for index in range(np.uint64(order.size)):
        index = np.uint64(index)
        base = np.uint64(starts[np.uint64(packs[index])])
        at = end + gap
        segment = np.uint32(1)
        if packs[index] != before:
            at = base
        elif end > base:
            segment = np.uint32(segments[end - ONE] + np.uint32(1))
        before = packs[index]
        example = np.uint64(order[index])
        begin = np.uint64(begins[example])
        size = np.uint64(sizes[example])
        for offset in range(size):
            offset = np.uint64(offset)
            out[at + offset] = ids[begin + offset]
            segments[at + offset] = segment
            positions[at + offset] = np.uint32(offset)
        end = at + size
