"""Compile all kernels ahead of first use."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from bpejit import arguments
from bpejit.arguments import showing_progress
from bpejit.jit import cache
from bpejit.jit.dispatch import is_first_run, on_compile
from bpejit.jit.listening import counting_compilations
from bpejit.progress_bar import Progress


@showing_progress
def warmup(part: str | None = None, *, progress: Progress | bool | None = None) -> tuple[int, float]:
    """Compile the kernels for this machine, or load them from the disk cache.

    Parameters
    ----------
    part : str, optional
        One of `training`, `encoding` and `others`. By default, all kernels are compiled.
    progress : callable or bool, optional
        As for `bpejit.train`.

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
    report = arguments.progress(progress)
    begun = time.perf_counter()
    expected = max(ALL_KERNELS - cache.count_kernels(), 0) if part is None else 0
    with counting_compilations() as compiled, ExitStack() as listening:
        if progress:

            def tell(*_: object) -> None:
                done = compiled()
                report("compile", min(done, expected) if expected else done, expected or None, "kernels")

            listening.callback(on_compile(tell))
        if part in (None, "training"):
            from bpejit.training.model_learning import warm_learning

            warm_learning()
        if part in (None, "encoding"):
            from bpejit.encoding.codec import warm_encoding

            warm_encoding()
        if part in (None, "others"):
            _warm_others()
    if part is None:
        cache.mark()
    return compiled(), time.perf_counter() - begun


FIRST_KERNELS = 55
"""Number of kernels that training, encoding and decoding need, for a progress bar; it varies a little with the processor."""

ALL_KERNELS = 85
"""Number of all kernels that `warmup` compiles, which varies as well."""


def compile_first(report: Callable[[int, int | None], None], *, others: bool = False) -> None:
    """Compile what training, encoding and decoding need, in two processes; users of one need the others soon.

    Parameters
    ----------
    report : callable
        Called with the number of new kernels, and the number that is expected; None after an upgrade.
    others : bool
        Whether to compile all other kernels as well, in a third process.
    """
    before, in_all = cache.count_kernels(), ALL_KERNELS if others else FIRST_KERNELS
    expected = in_all - before if before < in_all else None
    meanwhile = ("encoding", "others") if others else ("encoding",)

    def tell(*_: object) -> None:
        done = cache.count_kernels() - before
        report(done if expected is None else min(done, expected), expected)

    stop_listening = on_compile(tell, reports=False)
    try:
        tell()
        with ExitStack() as processes:
            for part in meanwhile:
                processes.enter_context(compiling_meanwhile(part, tell))
            warmup("training")
        for part in meanwhile:
            warmup(part)  # what the other process has failed to compile
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
    code = f"from bpejit.warm_kernels import warmup; warmup({part!r})"
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


def _warm_others() -> None:
    import numpy as np

    from bpejit.arrays import padded_text
    from bpejit.formats.packed_vocabulary import parse_large
    from bpejit.formats.ranked_merges import recover_merges
    from bpejit.formats.tiktoken_ranks import parse_ranks
    from bpejit.inspection.text_measures import ScriptTable, measure_text, scripts_around
    from bpejit.kernels.common.document_tokens import add_lengths, insert_tokens
    from bpejit.kernels.constants import WARMING_TEXT
    from bpejit.kernels.inspection.amounts import count_ids
    from bpejit.splitting.special_token_finder import SpecialTokenFinder
    from bpejit.t2t.datagen.generation_job import warm_data_sets
    from bpejit.training.superwords import warm_superwords

    text, n_bytes = padded_text(WARMING_TEXT)
    table = ScriptTable(by_script=False)
    measure_text(text, n_bytes, table)
    scripts_around(text, np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64), table)
    parse_ranks(b"YQ== 0\n", "ranks")
    parse_large(b'{"model": {"vocab": {"a": 0}, "merges": [["a", "a"]]}}'.ljust(1 << 20), hook=dict)
    one = np.zeros(1, dtype=np.int64)
    count_ids(np.zeros(1, dtype=np.uint32), one)
    for dtype in (np.uint16, np.uint32):
        ids = np.zeros(1, dtype=dtype)
        insert_tokens(ids, one, -1, -1, -1, ids.copy(), one.copy())
        add_lengths(ids, np.zeros(1, dtype=np.uint32))
    list(SpecialTokenFinder([b"<|endoftext|>"]).spans(WARMING_TEXT))
    tokens = [*(bytes([byte]) for byte in range(256)), b"lo", b"low"]
    recover_merges(dict(enumerate(tokens)))
    warm_data_sets()
    warm_superwords()
