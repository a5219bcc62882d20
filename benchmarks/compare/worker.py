"""One measurement, in a process of its own: `python -m benchmarks.compare.worker JOB PARAMETERS ANSWER-FILE`.

Inputs are read, and everything is imported and compiled, before the timer starts; results are turned into something that can
be compared after it has stopped.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .corpora import SEPARATOR
from .processes import ONE_PROCESSOR
from .tools import CannotError, get_tool
from .vocabularies import Vocabulary

Params = dict[str, Any]


def digest(ids: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(ids, dtype="<u4").data).hexdigest()


def max_rss_mb() -> float:
    """Highest memory of this process alone, shared libraries included; in bpejit's case without forked workers."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss would count what the parent held when it started this process
        held = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(held.split()[1]) * 1024 / 1e6
    import resource

    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found / 1e6 if sys.platform == "darwin" else found * 1024 / 1e6


def timed(job: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.perf_counter()
    result = job()
    return result, time.perf_counter() - begun


def prepared(name: str):
    tool = get_tool(name)
    _, seconds = timed(tool.prepare)
    return tool, seconds


# ---- jobs


def prepare(params: Params) -> Params:
    """Compile bpejit's kernels, or load them."""
    import bpejit

    compiled, seconds = bpejit.warmup()
    return {"compiled": compiled, "seconds": seconds}


def train(params: Params) -> Params:
    """Train one tool; `save` is a file for the merges, to be compared, `folder` one for what the tool saves."""
    tool, preparing = prepared(params["tool"])
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(params.get("folder") or folder)
        options = {"workers": params["workers"], "rule": params["rule"], "folder": kept}
        result, seconds = timed(lambda: tool.train(Path(params["path"]), params["vocab_size"], **options))
        Path(params["worked"]).touch()
    rss = max_rss_mb()
    learned = tool.trained(result)
    if params.get("save"):
        pairs = learned.merges and [[left.hex(), right.hex()] for left, right in learned.merges]
        Path(params["save"]).write_text(json.dumps({"tokens": [token.hex() for token in learned.tokens], "merges": pairs}))
    text = b"\n".join(token.hex().encode() for token in learned.tokens)
    return {
        "seconds": seconds,
        "prepare_seconds": preparing,
        "maxrss_mb": rss,
        "n_merges": len(learned.tokens),
        "sha256": hashlib.sha256(text).hexdigest(),
    }


def encode(params: Params) -> Params:
    """Encode a text in memory: a first pass, later passes, and, for comparing, the ids of the beginning of the text."""
    tool, preparing = prepared(params["tool"])
    vocabulary = Vocabulary(**params["vocabulary"])
    encoder, loading = timed(lambda: tool.load(vocabulary))
    data = Path(params["path"]).read_bytes()[: params["n_bytes"]]
    text = tool.text_of(data)
    gc.collect()
    result, first = timed(lambda: tool.encode(encoder, text))
    if not params["later_passes"]:
        Path(params["worked"]).touch()
    rss = max_rss_mb()
    ids = tool.ids_of(result, vocabulary)
    del result
    later = []
    for _ in range(params["later_passes"]):
        again, seconds = timed(lambda: tool.encode(encoder, text))
        later.append(seconds)
        again_ids = tool.ids_of(again, vocabulary)
        if not np.array_equal(again_ids, ids):
            raise AssertionError("a later pass gave other ids than the first")
        del again, again_ids
    answer = {
        "first_seconds": first,
        "later_seconds": later,
        "prepare_seconds": preparing,
        "load_seconds": loading,
        "maxrss_mb": rss,
        "n_bytes": len(data),
        "n_tokens": ids.size,
        "sha256": digest(ids),
    }
    if params.get("save"):
        np.save(params["save"], ids)
    if params.get("parts"):
        answer["parts"] = {
            str(part): digest(tool.ids_of(tool.encode(encoder, tool.text_of(data[:part])), vocabulary))
            for part in params["parts"]
        }
    return answer


def encode_file(params: Params) -> Params:
    """From a file to a file of ids."""
    tool, preparing = prepared(params["tool"])
    vocabulary = Vocabulary(**params["vocabulary"])
    encoder = tool.load(vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "tokens.bin"
        dtype = "uint16" if max(vocabulary.special_tokens.values()) < 1 << 16 else "uint32"
        if params["tool"] == "bpejit":
            _, seconds = timed(lambda: encoder.encode_files([params["path"]], out, dtype=dtype, workers=params["workers"]))
        elif params["tool"] == "gigatoken":
            _, seconds = timed(lambda: gigatoken_to_file(encoder, params["path"], out, params["workers"], dtype))
        else:
            raise CannotError("it does not encode files")
        rss = max_rss_mb()
        written = hashlib.sha256()
        with out.open("rb") as file:
            # block by block: the memory that is watched from outside is the tool's
            while block := file.read(1 << 20):
                written.update(block)
        n_tokens = out.stat().st_size // np.dtype(dtype).itemsize
    return {
        "seconds": seconds,
        "prepare_seconds": preparing,
        "maxrss_mb": rss,
        "n_tokens": n_tokens,
        "sha256": written.hexdigest(),
    }


def gigatoken_to_file(encoder: Any, path: str, out: Path, workers: int, dtype: str) -> None:
    # Without a separator the file is one document, in which special tokens become ids, as in ours.
    import awkward

    ids = encoder.encode_files([path], parallel=workers > 1)
    np.asarray(awkward.flatten(ids)).astype(dtype, copy=False).tofile(out)


def split(params: Params) -> Params:
    """Split a text, by bpejit or by the regex package, on one core."""
    from bpejit.arrays import padded_text
    from bpejit.kernels.splitting import spans
    from bpejit.splitting import Splitter, compile_pattern

    from .. import bench_split

    compiled = compile_pattern(params["pattern"])
    splitter = Splitter(compiled, [SEPARATOR])
    data = Path(params["path"]).read_bytes()[: params["n_bytes"]]
    if params["tool"] == "regex":
        if len(compiled.stages) > 1:
            _, seconds = timed(lambda: splitter.split_by_regex(*padded_text(data)))
        else:
            strings = [document for document in data.decode().split(SEPARATOR.decode()) if document]
            iterate = compiled.stages[0].finditer
            _, seconds = timed(lambda: sum(sum(1 for _ in iterate(string)) for string in strings))
        return {"seconds": [seconds], "n_bytes": len(data)}
    if splitter.automaton is None:
        raise CannotError(f"the pattern runs through the regex package: {compiled.reason}")
    text, n_bytes = padded_text(data)
    ends = np.empty(bench_split.BLOCK_BYTES + spans.MIN_ENDS, dtype=np.uint32)
    bench_split.split_blocks(splitter, text[: min(n_bytes, 100_000) + 16], min(n_bytes, 100_000), ends)
    part = params["check_bytes"]
    equal = np.array_equal(splitter.split(text[: part + 16], part), splitter.split_by_regex(text[: part + 16], part))
    seconds = []
    for _ in range(params["passes"]):
        _, one = timed(lambda: bench_split.split_blocks(splitter, text, n_bytes, ends))
        seconds.append(one)
    return {"seconds": seconds, "n_bytes": n_bytes, "equal": bool(equal)}


LONG_KINDS = ("letters", "one letter")


def long_text(kind: str, n_bytes: int) -> bytes:
    """One pre-token: letters with the frequencies of English, or the same letter again and again."""
    if kind == "one letter":
        return b"a" * n_bytes
    letters = "etaoinshrdlcumwfgypbvk"
    weights = [127, 91, 82, 75, 70, 67, 63, 61, 60, 43, 40, 28, 28, 24, 24, 22, 20, 20, 19, 15, 10, 8]
    return "".join(random.Random(1).choices(letters, weights, k=n_bytes)).encode()


def long(params: Params) -> Params:
    """Encode one pre-token of growing length; stops when one took longer than the limit."""
    tool, _ = prepared(params["tool"])
    vocabulary = Vocabulary(**params["vocabulary"])
    encoder = tool.load(vocabulary)
    tool.encode(encoder, tool.text_of(b"a text to begin with"))
    seconds = None
    found = []
    for size in params["sizes"]:
        text = tool.text_of(long_text(params["kind"], size))
        result, seconds = timed(lambda text=text: tool.encode(encoder, text))
        found.append({"size": size, "seconds": seconds, "sha256": digest(tool.ids_of(result, vocabulary))})
        if seconds > params["limit"]:
            break
    return {"found": found}


def short(params: Params) -> Params:
    """Encode short strings one by one: always the same, or each once; in microseconds a call."""
    tool, _ = prepared(params["tool"])
    vocabulary = Vocabulary(**params["vocabulary"])
    encoder = tool.load(vocabulary)
    lines = params["lines"]
    encode_short = tool.encode_short
    for line in lines[:100]:
        encode_short(encoder, line)
    checked = [np.asarray(encode_short(encoder, line), dtype=np.uint32) for line in lines]
    same = lines[0]
    repeats = params["repeats"]

    def again() -> None:
        for _ in range(repeats):
            encode_short(encoder, same)

    def each() -> None:
        for line in lines:
            encode_short(encoder, line)

    _, same_seconds = timed(again)
    _, lines_seconds = timed(each)
    return {
        "same_us": same_seconds / repeats * 1e6,
        "lines_us": lines_seconds / len(lines) * 1e6,
        "sha256": digest(np.concatenate(checked)),
    }


def start(params: Params) -> Params:
    """Import, load a vocabulary, encode 1 KB: the time of the whole process is what counts."""
    tool = get_tool(params["tool"])
    vocabulary = Vocabulary(**params["vocabulary"])
    encoder = tool.load(vocabulary)
    ids = tool.ids_of(tool.encode(encoder, tool.text_of(Path(params["path"]).read_bytes())), vocabulary)
    return {"sha256": digest(ids)}


def baseline_train(params: Params) -> Params:
    from .. import baseline

    text = Path(params["path"]).read_bytes()[: params["n_bytes"]].decode()
    merges, seconds = timed(lambda: baseline.train(text, params["n_merges"], [SEPARATOR.decode()]))
    tokens = b"\n".join((left + right).hex().encode() for left, right in merges)
    return {"seconds": seconds, "maxrss_mb": max_rss_mb(), "sha256": hashlib.sha256(tokens).hexdigest()}


def baseline_encode(params: Params) -> Params:
    """Without a cache, and with one: first pass and second."""
    import bpejit

    from .. import baseline

    tokenizer = bpejit.load(Vocabulary(**params["vocabulary"]).saved)
    text = Path(params["path"]).read_bytes()[: params["n_bytes"]].decode()
    ids = {token: number for number, token in tokenizer.vocab.items()}
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    specials = list(tokenizer.special_tokens)
    cache: dict[bytes, list[int]] = {}
    plain, seconds = timed(lambda: baseline.encode(text, ids, ranks, specials))
    cached, first = timed(lambda: baseline.encode(text, ids, ranks, specials, cache=cache))
    _, later = timed(lambda: baseline.encode(text, ids, ranks, specials, cache=cache))
    if plain != cached:
        raise AssertionError("the baseline's cache changes its ids")
    return {
        "seconds": seconds,
        "first_seconds": first,
        "later_seconds": later,
        "n_bytes": len(text.encode()),
        "sha256": digest(np.array(plain, dtype=np.uint32)),
    }


JOBS: dict[str, Callable[[Params], Params]] = {
    "prepare": prepare,
    "train": train,
    "encode": encode,
    "encode-file": encode_file,
    "split": split,
    "long": long,
    "short": short,
    "start": start,
    "baseline-train": baseline_train,
    "baseline-encode": baseline_encode,
}


def main() -> None:
    job, params, answer = sys.argv[1:]
    if os.environ.get(ONE_PROCESSOR) and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        found = JOBS[job](json.loads(params))
    except CannotError as reason:
        found = {"cannot": str(reason)}
    Path(answer).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
