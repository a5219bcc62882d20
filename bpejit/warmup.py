"""Compile all kernels ahead of first use."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from bpejit import arguments
from bpejit.jit import cache
from bpejit.jit.dispatch import is_first_run, on_compile

# Long and short pre-tokens, tied pairs and a special token, so that every kernel runs.
_TEXT = b"low lower lowest newest widest<|endoftext|>" * 3 + b"a pre-token beyond fifteen bytes: " + b"abc" * 40


def warmup(part: str | None = None) -> tuple[int, float]:
    """Compile the kernels for this machine, or load them from the disk cache.

    Parameters
    ----------
    part : str, optional
        One of `training`, `encoding` and `others`. By default, all kernels are compiled.

    Returns
    -------
    compiled : int
        Number of kernels that were not in the disk cache.
    seconds : float
        Wall time.

    Raises
    ------
    OptionError
        If `part` is unknown.

    Notes
    -----
    Training with so many different counts that cells take 64 bits (see `training.cell_ranges.cell_type`) needs further
    specializations. They are compiled on first use, in eight seconds, which is little for corpora of that size.
    """
    part = None if part is None else arguments.choice("part", part, ("training", "encoding", "others"))
    begun = time.perf_counter()
    compiled = 0

    def count(event: str, _: float) -> None:
        nonlocal compiled
        compiled += event == "end"

    stop_counting = on_compile(count, reports=False)
    for name, run in (("training", _train), ("encoding", _encode), ("others", _run_others)):
        if part in (None, name):
            run()
    stop_counting()
    if part is None:
        cache.mark()
    return compiled, time.perf_counter() - begun


FIRST_KERNELS = 57
"""Number of kernels that training, encoding and decoding need, for a progress bar; it varies a little with the processor."""


def compile_first(report: Callable[[int, int | None], None]) -> None:
    """Compile what training, encoding and decoding need, in two processes; users of one need the others soon.

    Parameters
    ----------
    report : callable
        Called with the number of new kernels, and the number that is expected; None after an upgrade.
    """
    before = cache.count_kernels()
    expected = FIRST_KERNELS - before if before < FIRST_KERNELS else None

    def tell(*_: object) -> None:
        done = cache.count_kernels() - before
        report(done if expected is None else min(done, expected), expected)

    stop_listening = on_compile(tell, reports=False)
    try:
        tell()
        with compiling_meanwhile("encoding", tell):
            warmup("training")
        warmup("encoding")  # what the other process has failed to compile
        cache.mark()
    finally:
        stop_listening()


@contextmanager
def compiling_meanwhile(part: str, waiting: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Compile a part in another process while the block runs, if this machine may have to compile it.

    Both parts take equally long to compile, and a second processor is usually idle. Nothing depends on the other process:
    kernels that it fails to compile are compiled when they are needed. `waiting` is called while this one waits for it.
    """
    if not is_first_run():
        yield
        return
    code = f"from bpejit.warmup import warmup; warmup({part!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        while process.poll() is None:
            waiting()
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
    finally:
        process.kill()
        process.wait()


def _train() -> None:
    import numpy as np

    from bpejit.arrays import PretokenTable, padded_text
    from bpejit.counts.table_streams import merge_streams
    from bpejit.formats.vocabulary_lines import vocabulary_and_merges
    from bpejit.model import Model
    from bpejit.packed_tokens import PackedMerges, PackedTokens
    from bpejit.splitting import Splitter
    from bpejit.training.counting import PretokenCounter, add_up, merge_tables
    from bpejit.training.hash_tables import HashTables
    from bpejit.training.merge_learner import MergeLearner
    from bpejit.training.model_learning import token_strings

    splitter = Splitter("gpt2", [b"<|endoftext|>"])
    text, n_bytes = padded_text(_TEXT)
    splitter.find_cut(text, 0, n_bytes, n_bytes)
    # The smallest tables, so that the kernels that grow them run.
    counter = PretokenCounter(slots=512, arena_bytes=1)
    counter.add_text(splitter, text, n_bytes, n_bytes, True)
    for first, ends, n_ends in splitter.blocks(text, n_bytes, n_bytes, True):
        counter.add_spans(text, first, ends, n_ends)
    for number in range(1000):
        word, length = padded_text(b"%d" % number)
        counter.add_text(splitter, word, length, length, True)
    counter.weight = 1000  # high counts, for several phases
    table = merge_tables([counter.table(), counter.table()])
    list(merge_streams([[counter.table()], [table]]))
    other = PretokenCounter()
    other.add_table(table)
    packed, filled = add_up([counter, other], 1), add_up([counter], 1)
    assert isinstance(packed, HashTables)
    packed.pack()
    MergeLearner(filled, 0)
    # More merges than there are, and two threads, so that their results are combined; sums of two bytes, and of four.
    for factor in (1, 1000):
        weighted = PretokenTable(table.pool, table.starts, factor * table.counts)
        merges = MergeLearner(weighted, 10_000, workers=2, least_cells=1, least_postings=1).run()
    # The tokenizer is saved.
    strings = token_strings(merges)
    model = Model(PackedTokens(strings, np.arange(len(strings))), PackedMerges(strings, merges.left, merges.right))
    vocabulary_and_merges(model, legacy_merges=False)
    assert model.sha256


def _encode() -> None:
    import numpy as np

    from bpejit.encoding.codec import Codec
    from bpejit.encoding.encoder_tables import make_last_merges
    from bpejit.kernels.common.integer_lists import chained
    from bpejit.model import Model

    # `find_cut` is compiled by the process that trains.
    tokens = [*(bytes([byte]) for byte in range(256)), b"lo", b"low"]
    codec = Codec(Model(dict(enumerate(tokens)), [(b"l", b"o"), (b"lo", b"w")], {"<|endoftext|>": len(tokens)}))
    encoder = codec.encoder
    make_last_merges(np.zeros(1, dtype=np.uint64))  # this model has no characters of three bytes
    encoder.decode(codec.encode_list(_TEXT))
    codec.encode_batch([_TEXT]).tolist()
    stream = encoder.stream()
    list(chained([stream.feed(_TEXT[:100])]))
    stream.finish()


def _run_others() -> None:
    import numpy as np

    from bpejit.arrays import padded_text
    from bpejit.formats.tiktoken_ranks import parse_ranks
    from bpejit.inspection.text_measures import measure_text
    from bpejit.kernels.inspection.amounts import count_ids
    from bpejit.ranked_merges import recover_merges
    from bpejit.splitting.special_token_finder import SpecialTokenFinder
    from bpejit.t2t.array_packing import pack_example_arrays
    from bpejit.t2t.example_arrays import warm_records
    from bpejit.t2t.subword_text_encoder import SubwordTextEncoder

    text, n_bytes = padded_text(_TEXT)
    measure_text(text, n_bytes)
    parse_ranks(b"YQ== 0\n", "ranks")
    count_ids(np.zeros(1, dtype=np.uint32), np.zeros(1, dtype=np.int64))
    list(SpecialTokenFinder([b"<|endoftext|>"]).spans(_TEXT))
    recover_merges(dict(enumerate([*(bytes([byte]) for byte in range(256)), b"lo", b"low"])))
    SubwordTextEncoder.build_from_generator([_TEXT.decode()], 100).encode("low")
    warm_records()
    pack_example_arrays({"targets": (np.ones(2, dtype=np.uint32), np.arange(3))}, False)
