"""Parse the lines of a rank file: a token in base64, a space, its rank in decimal digits."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.kernels.constants import FOUR, ONE, THREE, TWO, ZERO

NO_DIGIT = 64
"""Value of a byte that is not a digit of base64."""

_PAD = np.uint8(ord("="))
_SPACE = np.uint8(ord(" "))
_LINE_END = np.uint8(ord("\n"))
_MAX_DIGITS = 8


@kernel
def parse_rank_lines(data, size, digits, longest, pool, starts, numbers):
    """Decode the tokens and ranks of a file in canonical form.

    Parameters
    ----------
    data : uint8[at least size + 4], in
        Lines that end in a line feed; zeros after them.
    size : int
        Bytes of the lines.
    digits : uint8[256], in
        The value of each digit of base64, and NO_DIGIT for other bytes.
    longest : int
        Greatest length of a token.
    pool : uint8[at least 3 / 4 * size + 3], out
        The tokens.
    starts : int64[at least lines + 1], out
    numbers : int64[at least lines], out

    Returns
    -------
    int
        Number of lines; -1 if a line has another form, a token is empty or too long, or a rank is not above the one before it.
        Equal tokens are not noticed.

    Notes
    -----
    Takes 1 ns for a byte. Bits after the last byte of a token are ignored, as by `binascii.a2b_base64`.
    """
    end = np.uint64(size)
    at = ZERO
    written = ZERO
    count = ZERO
    last = np.int64(-1)
    while at < end:
        begin = written
        while True:
            a = np.uint32(digits[data[at]])
            b = np.uint32(digits[data[at + ONE]])
            c = np.uint32(digits[data[at + TWO]])
            d = np.uint32(digits[data[at + THREE]])
            if (a | b | c | d) >= NO_DIGIT:
                break
            word = a << np.uint32(18) | b << np.uint32(12) | c << np.uint32(6) | d
            pool[written] = np.uint8(word >> np.uint32(16))
            pool[written + ONE] = np.uint8(word >> np.uint32(8) & np.uint32(255))
            pool[written + TWO] = np.uint8(word & np.uint32(255))
            written += THREE
            at += FOUR
            if at >= end:
                return -1
        if data[at] != _SPACE:
            if (a | b) >= NO_DIGIT or data[at + THREE] != _PAD:
                return -1
            pool[written] = np.uint8((a << np.uint32(2) | b >> np.uint32(4)) & np.uint32(255))
            written += ONE
            if c < NO_DIGIT:
                pool[written] = np.uint8((b << np.uint32(4) | c >> np.uint32(2)) & np.uint32(255))
                written += ONE
            elif data[at + TWO] != _PAD:
                return -1
            at += FOUR
            if data[at] != _SPACE:
                return -1
        at += ONE
        number = np.int64(0)
        first = at
        while at < end and np.uint8(48) <= data[at] <= np.uint8(57):
            number = np.int64(10) * number + np.int64(data[at]) - np.int64(48)
            at += ONE
            if at - first > np.uint64(_MAX_DIGITS):
                return -1
        length = np.int64(written - begin)
        if at == first or at >= end or data[at] != _LINE_END or number <= last or not 0 < length <= longest:
            return -1
        at += ONE
        starts[count] = np.int64(begin)
        numbers[count] = number
        last = number
        count += ONE
    starts[count] = np.int64(written)
    return np.int64(count)
