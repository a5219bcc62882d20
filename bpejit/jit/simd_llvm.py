"""The operations of `simd` in LLVM IR; loaded only when a kernel is compiled."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from bpejit.jit import target
from bpejit.jit.avx512_llvm import compress, look_up_one, look_up_two
from bpejit.jit.memory_llvm import WORD, address_of, emits
from bpejit.jit.simd import CONTEXT_BEFORE, CONTEXT_SIZE, NARROWED

_LANES = 64
_BYTES = ir.VectorType(ir.IntType(8), _LANES)
_TRUTHS = ir.VectorType(ir.IntType(1), _LANES)
_WORDS = ir.VectorType(ir.IntType(32), 16)
_SIXTEEN_BYTES = ir.VectorType(ir.IntType(8), 16)
_HALF_BYTES = ir.VectorType(ir.IntType(8), 32)
_HALF_WORDS = ir.VectorType(ir.IntType(32), 8)


@emits(types.boolean)
def has_avx512_vbmi(builder: Any) -> Any:
    """Return True if the operations on 64 positions or characters are available; a constant in compiled code."""
    return ir.IntType(1)(target.current().has_avx512_vbmi)


@emits(types.boolean)
def has_avx2(builder: Any) -> Any:
    """Return True if `match_groups` is available; a constant in compiled code."""
    return ir.IntType(1)(target.current().has_avx2)


def _load(builder: Any, start: Any, kind: Any, offset: int = 0) -> Any:
    """Return a value at a number of bytes after an address."""
    address = builder.gep(start, [WORD(offset)])
    return builder.load(builder.bitcast(address, kind.as_pointer()), align=1)


def _store(builder: Any, value: Any, start: Any, offset: int = 0) -> None:
    address = builder.gep(start, [WORD(offset)])
    builder.store(value, builder.bitcast(address, value.type.as_pointer()), align=1)


def _every(kind: Any, number: int) -> Any:
    """Return a vector with the same number in all lanes."""
    return ir.Constant(kind, [number] * kind.count)


def _as_bits(builder: Any, comparison: str, lanes: Any) -> Any:
    truths = builder.icmp_signed(comparison, lanes, ir.Constant(_BYTES, None))
    return builder.bitcast(truths, WORD)


@emits(types.uint64, needs="has_avx512_vbmi")
def match_contexts(builder: Any, text: Any, position: Any, rules: Any, number: Any) -> Any:
    """Return the positions whose contexts are in a box of a set of tables, as bits of a uint64."""
    start = address_of(builder, text, position)
    size = WORD(CONTEXT_SIZE * 128)
    first = builder.mul(number, size)
    table = address_of(builder, rules, first)
    boxes = None
    for slot in range(CONTEXT_SIZE):
        characters = _load(builder, start, _BYTES, slot - CONTEXT_BEFORE)
        halves = (_load(builder, table, _BYTES, 128 * slot + half) for half in (0, 64))
        found = look_up_two(builder, next(halves), characters, next(halves))
        boxes = found if boxes is None else builder.and_(boxes, found)
    return _as_bits(builder, "!=", boxes)


def _load_table(builder: Any, start: Any, offset: int) -> Any:
    """Return a table of 16 bytes in both halves of a register."""
    table = _load(builder, start, _SIXTEEN_BYTES, offset)
    twice = ir.Constant(ir.VectorType(ir.IntType(32), 32), 2 * list(range(16)))
    return builder.shuffle_vector(table, ir.Constant(_SIXTEEN_BYTES, ir.Undefined), twice)


def _look_up(builder: Any, table: Any, index: Any) -> Any:
    """Return the entries of a table at the low four bits of 32 indices; 0 where the high bit of an index is set."""
    kind = ir.FunctionType(_HALF_BYTES, [_HALF_BYTES, _HALF_BYTES])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.pshuf.b"), [table, index])


def _find_groups(builder: Any, tables: list[Any], characters: Any) -> Any:
    """Return the groups of 32 ASCII characters: eight lookups by the low four bits, of which the high bits select one."""
    found = [_look_up(builder, table, characters) for table in tables]
    for shift in (3, 2, 1):  # moves bit 4, 5 or 6 of each character to its high bit
        shifted = builder.shl(characters, _every(_HALF_BYTES, shift))
        upper = builder.icmp_signed("<", shifted, ir.Constant(_HALF_BYTES, None))
        found = [builder.select(upper, odd, even) for even, odd in zip(found[::2], found[1::2], strict=True)]
    return found[0]


@emits(types.UniTuple(types.uint64, 2), needs="has_avx2")
def match_groups(builder: Any, text: Any, position: Any, rules: Any, first: Any, last: Any, n_halves: Any) -> Any:
    """Return the positions whose contexts are in a box of tables over groups, in two words for two ranges of sets."""
    start = builder.gep(address_of(builder, text, position), [WORD(-CONTEXT_BEFORE)])
    tables = address_of(builder, rules, WORD(0))
    maps = [_load_table(builder, tables, 16 * part) for part in range(8)]
    tables = builder.gep(tables, [WORD(128)])
    # The contexts of the last positions extend into a third register by four bytes; no byte after them is read.
    rest = builder.insert_element(ir.Constant(_HALF_WORDS, None), _load(builder, start, ir.IntType(32), 64), ir.IntType(32)(0))
    characters = [
        _load(builder, start, _HALF_BYTES),
        _load(builder, start, _HALF_BYTES, 32),
        builder.bitcast(rest, _HALF_BYTES),
    ]
    groups = [_find_groups(builder, maps, some) for some in characters]

    def window(half: int, slot: int) -> Any:
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), 32), list(range(slot, slot + 32)))
        return builder.shuffle_vector(groups[half], groups[half + 1], lanes)

    windows = [[window(half, slot) for slot in range(CONTEXT_SIZE)] for half in range(2)]
    results = [cgutils.alloca_once_value(builder, WORD(0)) for _ in range(2)]

    def match_sets(n_halves: int) -> None:
        with cgutils.for_range(builder, last, intp=WORD) as loop:
            table = builder.gep(tables, [builder.mul(loop.index, WORD(CONTEXT_SIZE * 16 * n_halves))])
            found = [_match_box(builder, table, some, n_halves) for some in windows]
            bits = builder.or_(found[0], builder.shl(found[1], WORD(32)))
            is_first = builder.icmp_unsigned("<", loop.index, first)
            for result, wanted in zip(results, (is_first, builder.not_(is_first)), strict=True):
                builder.store(builder.or_(builder.load(result), builder.select(wanted, bits, WORD(0))), result)

    with builder.if_else(builder.icmp_unsigned("==", n_halves, WORD(1))) as (then, otherwise):
        with then:
            match_sets(1)
        with otherwise:
            match_sets(2)
    return [builder.load(result) for result in results]


def _match_box(builder: Any, tables: Any, windows: list[Any], n_halves: int) -> Any:
    """Return which of 32 positions are in a box of a set of tables, as bits of an i64."""
    boxes = None
    for slot, group in enumerate(windows):
        table = [_load_table(builder, tables, 16 * (n_halves * slot + part)) for part in range(n_halves)]
        if n_halves == 1:
            found = _look_up(builder, table[0], group)
        else:
            # Each sum sets the high bit of the groups of the other half.
            lower = _look_up(builder, table[0], builder.add(group, _every(_HALF_BYTES, 0x70)))
            found = builder.or_(lower, _look_up(builder, table[1], builder.sub(group, _every(_HALF_BYTES, 0x10))))
        boxes = found if boxes is None else builder.and_(boxes, found)
    truths = builder.icmp_signed("!=", boxes, ir.Constant(_HALF_BYTES, None))
    return builder.zext(builder.bitcast(truths, ir.IntType(32)), WORD)


@emits(types.uint64)
def find_non_ascii(builder: Any, text: Any, position: Any) -> Any:
    """Return which of the 64 positions from `position` have a non-ASCII byte in their context, as bits of a uint64."""
    start = address_of(builder, text, position)
    either = _load(builder, start, _BYTES, -CONTEXT_BEFORE)
    for slot in range(1, CONTEXT_SIZE):
        either = builder.or_(either, _load(builder, start, _BYTES, slot - CONTEXT_BEFORE))
    return _as_bits(builder, "<", either)


@emits(types.uint64)
def narrow_characters(builder: Any, characters: Any, position: Any, out: Any, index: Any) -> Any:
    """Write the low bytes of 32 characters; return which of them are not ASCII, as bits of a uint64."""
    kind = ir.VectorType(characters.type.pointee, NARROWED)
    lanes = _load(builder, address_of(builder, characters, position), kind)
    narrowed = lanes if kind.element.width == 8 else builder.trunc(lanes, _HALF_BYTES)
    _store(builder, narrowed, address_of(builder, out, index))
    truths = builder.icmp_unsigned(">", lanes, _every(kind, 0x7F))
    return builder.zext(builder.bitcast(truths, ir.IntType(NARROWED)), WORD)


def _write_bit_by_bit(builder: Any, start: Any, position: Any, bits: Any) -> Any:
    """Write `position` plus the number of each set bit, in steps of eight bits, and return the number of bits."""
    count = builder.ctpop(bits)
    left = cgutils.alloca_once_value(builder, bits)
    entries = builder.bitcast(start, ir.IntType(32).as_pointer())

    def write(step: Any) -> None:
        some = builder.load(left)
        for number in range(8):
            entry = builder.trunc(builder.add(position, builder.cttz(some, ir.IntType(1)(0))), ir.IntType(32))
            builder.store(entry, builder.gep(entries, [builder.add(step, WORD(number))]), align=4)
            some = builder.and_(some, builder.sub(some, WORD(1)))
        builder.store(some, left)

    # Eight entries unconditionally: most blocks have eight to sixteen, and the end of a loop over bits would be mispredicted.
    write(WORD(0))
    with builder.if_then(builder.icmp_unsigned(">", count, WORD(8)), likely=True):
        write(WORD(8))
        with cgutils.for_range_slice(builder, WORD(16), count, WORD(8), WORD) as (step, _):
            write(step)
    return count


@emits(types.uint64)
def write_bit_positions(builder: Any, ends: Any, index: Any, position: Any, bits: Any) -> Any:
    """Write `position + i` to `ends[index:]` for each bit `i` of `bits` that is 1; return their number, as uint64.

    Up to 64 entries from `index` on are overwritten.
    """
    start = address_of(builder, ends, index)
    if not target.current().has_avx512_vbmi:
        return _write_bit_by_bit(builder, start, position, bits)
    numbers = ir.Constant(_BYTES, list(range(_LANES)))
    chosen = compress(builder, numbers, builder.bitcast(bits, _TRUTHS))
    base = _splat(builder, position)

    def write(quarter: int) -> None:
        lanes = ir.Constant(_WORDS, list(range(16 * quarter, 16 * quarter + 16)))
        some = builder.zext(builder.shuffle_vector(chosen, ir.Constant(_BYTES, ir.Undefined), lanes), _WORDS)
        _store(builder, builder.add(some, base), start, 64 * quarter)

    count = builder.ctpop(bits)
    write(0)
    write(1)
    with builder.if_then(builder.icmp_unsigned(">", count, WORD(32)), likely=False):
        write(2)
        write(3)
    return count


_NONE = _every(_WORDS, 0xFFFF_FFFF)
_LANE = ir.Constant(_WORDS, list(range(16)))
_SIXTEEN_TRUTHS = ir.VectorType(ir.IntType(1), 16)


def _splat(builder: Any, value: Any) -> Any:
    """Return sixteen lanes with the same number."""
    undefined = ir.Constant(_WORDS, ir.Undefined)
    first = builder.insert_element(undefined, builder.trunc(value, ir.IntType(32)), ir.IntType(32)(0))
    return builder.shuffle_vector(first, undefined, _every(_WORDS, 0))


def _gather(builder: Any, table: Any, index: Any, wanted: Any, otherwise: Any) -> Any:
    """Return the entries of a uint32 table at sixteen indices under a mask, and `otherwise` in the other lanes.

    Without AVX-512, LLVM makes a branch for each lane that is not known to be wanted, so all other lanes read entry 0.
    """
    if not target.current().has_avx512_vbmi:
        index = builder.select(wanted, index, ir.Constant(_WORDS, None))
        every = _every(_SIXTEEN_TRUTHS, 1)
        return builder.select(wanted, _gather_masked(builder, table, index, every, otherwise), otherwise)
    return _gather_masked(builder, table, index, wanted, otherwise)


def _gather_masked(builder: Any, table: Any, index: Any, wanted: Any, otherwise: Any) -> Any:
    kind = ir.VectorType(table.type, 16)
    words = ir.VectorType(WORD, 16)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(_WORDS, [kind, ir.IntType(32), _SIXTEEN_TRUTHS, _WORDS]),
        "llvm.masked.gather.v16i32.v16p0",
    )
    undefined = ir.Constant(words, ir.Undefined)
    start = builder.insert_element(undefined, builder.ptrtoint(table, WORD), ir.IntType(32)(0))
    start = builder.shuffle_vector(start, undefined, _every(_WORDS, 0))
    offset = builder.shl(builder.zext(index, words), ir.Constant(words, [2] * 16))
    return builder.call(function, [builder.inttoptr(builder.add(start, offset), kind), ir.IntType(32)(4), wanted, otherwise])


def _shifted(builder: Any, lanes: Any, mask: int, shift: int) -> Any:
    kept = builder.and_(lanes, _every(_WORDS, mask))
    return builder.shl(kept, _every(_WORDS, shift)) if shift else kept


def _at(builder: Any, start: Any, *offsets: Any) -> Any:
    """Return a byte pointer moved by the sum of some offsets in bytes."""
    for offset in offsets:
        start = builder.gep(start, [offset])
    return start


@emits(types.UniTuple(types.uint64, 3), needs="has_avx512_vbmi")
def pack_characters(builder: Any, text: Any, position: Any, expected: Any, scratch: Any, offset: Any, stride: Any) -> Any:
    """Collect the bytes of the characters of UTF-8 that start in 64 bytes, one byte of each in each of four ranges."""
    start = address_of(builder, text, position)
    out = address_of(builder, scratch, WORD(0))
    out = _at(builder, out, offset)
    octets = [_load(builder, start, _BYTES, i) for i in range(4)]

    def bits(comparison: str, lanes: Any, value: int) -> Any:
        truths = builder.icmp_unsigned(comparison, lanes, _every(_BYTES, value))
        return builder.bitcast(truths, WORD)

    def is_start(lanes: Any) -> Any:
        return builder.icmp_signed(">", lanes, _every(_BYTES, -65))

    begins = is_start(octets[0])
    starts, *next_starts = (builder.bitcast(is_start(lanes), WORD) for lanes in octets)
    wide = [bits(">=", octets[0], least) for least in (0xC0, 0xE0, 0xF0)]
    broken = WORD(0)
    continues = expected
    following = WORD(0)
    for i in range(3):
        broken = builder.or_(broken, builder.and_(wide[i], next_starts[i]))
        continues = builder.or_(continues, builder.shl(wide[i], WORD(i + 1)))
        following = builder.or_(following, builder.lshr(wide[i], WORD(63 - i)))
    broken = builder.or_(broken, builder.not_(builder.or_(starts, continues)))

    def write(i: int) -> None:
        packed = compress(builder, octets[i], begins)
        _store(builder, packed, _at(builder, out, builder.mul(stride, WORD(i))))

    for i in range(3):
        write(i)
    with builder.if_then(builder.icmp_unsigned("!=", wide[2], WORD(0)), likely=False):
        write(3)
    return [starts, broken, following]


def _look_up_node(builder: Any, tables: Any, node: Any, index: Any) -> Any:
    """Return 64 entries of 16 tables of 64 bytes, given by the low four bits of `node` and the low six bits of `index`.

    Eight lookups in two tables each, of which three bits of the node select one.
    """
    odd = builder.and_(builder.shl(node, _every(_BYTES, 6)), _every(_BYTES, 0x40))
    index = builder.or_(odd, builder.and_(index, _every(_BYTES, 0x3F)))
    found = [
        look_up_two(builder, _load(builder, tables, _BYTES, at), index, _load(builder, tables, _BYTES, at + 64))
        for at in range(0, 1024, 128)
    ]
    for bit in (2, 4, 8):
        is_set = builder.icmp_unsigned("!=", builder.and_(node, _every(_BYTES, bit)), ir.Constant(_BYTES, None))
        found = [builder.select(is_set, upper, lower) for lower, upper in zip(found[::2], found[1::2], strict=True)]
    return found[0]


@emits(types.uint64, needs="has_avx512_vbmi")
def classify_characters(builder: Any, scratch: Any, offset: Any, stride: Any, pages: Any, out: Any) -> Any:
    """Write the classes of 64 characters that `pages` has; return the other ones, as bits of a uint64."""
    begin = address_of(builder, scratch, WORD(0))
    table = address_of(builder, pages, WORD(0))
    start = _at(builder, begin, offset)
    first = _load(builder, start, _BYTES)
    second = _load(builder, _at(builder, start, stride), _BYTES)
    third = _load(builder, _at(builder, start, stride, stride), _BYTES)
    ascii_class = look_up_two(builder, _load(builder, table, _BYTES), first, _load(builder, table, _BYTES, 64))
    lead = look_up_one(builder, _load(builder, table, _BYTES, 128), first)
    of_three = builder.icmp_unsigned("==", builder.and_(first, _every(_BYTES, 0xF0)), _every(_BYTES, 0xE0))
    page = _look_up_node(builder, _at(builder, table, WORD(192)), first, second)
    found = builder.select(builder.icmp_signed("<", first, _every(_BYTES, 0)), lead, ascii_class)
    found = builder.select(of_three, page, found)
    last = builder.select(of_three, third, second)
    in_node = _look_up_node(builder, _at(builder, table, WORD(192 + 1024)), found, last)
    found = builder.select(builder.icmp_signed("<", found, _every(_BYTES, -64)), in_node, found)
    _store(builder, found, _at(builder, begin, out))
    return _as_bits(builder, "<", found)


@emits(types.uint64, needs="has_avx512_vbmi")
def look_up_characters(builder: Any, scratch: Any, offset: Any, stride: Any, class_of: Any, out: Any) -> Any:
    """Write the classes of sixteen characters; return those that are valid, as bits of a uint64."""
    begin = address_of(builder, scratch, WORD(0))
    start = _at(builder, begin, offset)

    def below(value: int) -> Any:
        return builder.icmp_unsigned("<", first, _every(_WORDS, value))

    def by_width(one: Any, two: Any, three: Any, four: Any) -> Any:
        wide = builder.select(below(0xF0), three, four)
        return builder.select(below(0x80), one, builder.select(below(0xE0), two, wide))

    octets = []
    for _ in range(4):
        octets.append(builder.zext(_load(builder, start, _SIXTEEN_BYTES), _WORDS))
        start = _at(builder, start, stride)
    first, second, third, fourth = octets
    or_ = builder.or_
    point = by_width(
        first,
        or_(_shifted(builder, first, 0x1F, 6), _shifted(builder, second, 0x3F, 0)),
        or_(or_(_shifted(builder, first, 0xF, 12), _shifted(builder, second, 0x3F, 6)), _shifted(builder, third, 0x3F, 0)),
        or_(
            or_(_shifted(builder, first, 7, 18), _shifted(builder, second, 0x3F, 12)),
            or_(_shifted(builder, third, 0x3F, 6), _shifted(builder, fourth, 0x3F, 0)),
        ),
    )
    least = by_width(*(_every(_WORDS, point) for point in (0, 0x80, 0x800, 0x10000)))
    good = below(0xF5)
    for test in (
        builder.icmp_unsigned(">=", point, least),
        builder.icmp_unsigned(">=", builder.sub(point, _every(_WORDS, 0xD800)), _every(_WORDS, 0x800)),
        builder.icmp_unsigned("<", point, _every(_WORDS, 0x110000)),
    ):
        good = builder.and_(good, test)
    words = builder.bitcast(class_of, ir.IntType(32).as_pointer())
    # Aligned words are loaded, so that no byte after the table is read.
    found = _gather(builder, words, builder.lshr(point, _every(_WORDS, 2)), good, ir.Constant(_WORDS, None))
    kind = builder.trunc(builder.lshr(found, _shifted(builder, point, 3, 3)), _SIXTEEN_BYTES)
    _store(builder, kind, _at(builder, begin, out))
    return builder.zext(builder.bitcast(good, ir.IntType(16)), WORD)


@emits(types.uint64, needs="has_avx512_vbmi")
def deposit_bits(builder: Any, bits: Any, mask: Any) -> Any:
    """Return the low bits of a uint64 at the places of the ones of `mask`, in order (PDEP), as uint64."""
    kind = ir.FunctionType(WORD, [WORD] * 2)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.bmi.pdep.64"), [bits, mask])


@emits(types.void)
def begin_merge(builder: Any, text: Any, start: Any, length: Any, byte_pairs: Any, lanes: Any, first: Any) -> None:
    """Write the initial state of a pre-token: its bytes to 16 lanes, and the ranks of its pairs to the next 16."""
    begin = address_of(builder, text, start)
    byte, following = (builder.zext(_load(builder, begin, _SIXTEEN_BYTES, i), _WORDS) for i in (0, 1))
    pair = builder.or_(builder.shl(byte, _every(_WORDS, 8)), following)
    wanted = builder.icmp_unsigned("<", builder.add(_LANE, _every(_WORDS, 1)), _splat(builder, length))
    ranks = _gather_masked(builder, byte_pairs, pair, wanted, _NONE)
    address = address_of(builder, lanes, first)
    _store(builder, byte, address)
    _store(builder, ranks, address, 64)


@emits(types.UniTuple(types.uint64, 2))
def lowest_rank(builder: Any, lanes: Any, first: Any) -> Any:
    """Return the lowest of 16 ranks from index `first` on, and the first lane that has it, as two uint64."""
    ranks = _load(builder, address_of(builder, lanes, first), _WORDS)
    reduce = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.IntType(32), [_WORDS]), "llvm.vector.reduce.umin.v16i32"
    )
    lowest = builder.zext(builder.call(reduce, [ranks]), WORD)
    bits = builder.bitcast(builder.icmp_unsigned("==", ranks, _splat(builder, lowest)), ir.IntType(16))
    lane = builder.cttz(builder.zext(bits, WORD), ir.IntType(1)(1))
    return [lowest, lane]


@emits(types.void)
def load_lanes(builder: Any, lanes: Any, first: Any, tokens: Any, ranks: Any, n: Any, mask: Any) -> None:
    """Copy tokens and ranks to 16 lanes each, where they may be merged."""
    to = address_of(builder, lanes, first)
    values = _load(builder, address_of(builder, lanes, tokens), _WORDS)
    old = _load(builder, address_of(builder, lanes, ranks), _WORDS)
    one = _every(_WORDS, 1)
    below = builder.icmp_unsigned("<", builder.add(_LANE, one), _splat(builder, n))
    new = builder.select(below, old, _every(_WORDS, 0xFFFF_FFFF))
    _store(builder, builder.and_(values, _splat(builder, mask)), to)
    _store(builder, new, to, 64)


@emits(types.uint64)
def equal_lanes(builder: Any, lanes: Any, first: Any, value: Any) -> Any:
    """Return which of the 16 elements of `lanes` from index `first` on equal a uint32, as the low bits of a uint64."""
    address = address_of(builder, lanes, first)
    values = _load(builder, address, _WORDS)
    found = builder.icmp_unsigned("==", values, _splat(builder, value))
    return builder.zext(builder.bitcast(found, ir.IntType(16)), WORD)


@emits(types.void)
def merge_lane(builder: Any, lanes: Any, first: Any, lane: Any, token: Any, before: Any, after: Any) -> None:
    """Replace two adjacent tokens by one, and write the ranks of its pairs."""
    address = address_of(builder, lanes, first)
    lane = _splat(builder, lane)
    one = _every(_WORDS, 1)
    here = builder.icmp_unsigned("==", _LANE, lane)
    left = builder.icmp_unsigned("==", builder.add(_LANE, one), lane)
    above = builder.icmp_unsigned(">", _LANE, lane)
    following = ir.Constant(_WORDS, list(range(1, 17)))

    def closed(index: int, new: Any) -> Any:
        """Return the lanes of a group with `new` in `lane`, and the lanes after it shifted down by one."""
        old = _load(builder, address, _WORDS, 64 * index)
        moved = builder.shuffle_vector(old, _NONE, following)
        return builder.select(here, _splat(builder, new), builder.select(above, moved, old))

    tokens = closed(0, token)
    ranks = builder.select(left, _splat(builder, before), closed(1, after))
    _store(builder, tokens, address)
    _store(builder, ranks, address, 64)


@emits(types.void)
def write_tokens(builder: Any, lanes: Any, first: Any, n: Any, ids: Any, out: Any, index: Any) -> None:
    """Write the ids of the tokens in the first `n` lanes to `out[index:]`; 16 entries are overwritten."""
    address = address_of(builder, lanes, first)
    tokens = _load(builder, address, _WORDS)
    wanted = builder.icmp_unsigned("<", _LANE, _splat(builder, n))
    found = _gather(builder, ids, tokens, wanted, ir.Constant(_WORDS, None))
    _store(builder, found, address_of(builder, out, index))
