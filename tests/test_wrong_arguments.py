"""Tests of public functions with one wrong argument: they raise only subclasses of BpejitError."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpejit

BYTES = {number: bytes([number]) for number in range(256)}
MODEL = bpejit.Model({**BYTES, 256: b"ab"}, [(b"a", b"b")], {"<x>": 257})

WRONG = [
    None, True, -1, 0, 2**70, 0.5, float("nan"), "", "unknown", "\0", "\ud800", "missing/file", "x" * 5000, b"", b"\xff", [],
    [None], [-1], [2**70], ["\ud800"], [b"a"], [[]], (), {}, {-1: b"a"}, {"a": -1}, {1: 1}, {"a"}, object(),
    np.zeros((2, 2)), np.float64(1), np.array(5), np.array(["a"]),
]  # fmt: skip
"""Unknown names, wrong ids, negative and huge numbers, missing files, and wrong types."""

NOT_TRIED = {
    "train.workers": "starts processes",
    "extend.workers": "starts processes",
    "count.workers": "starts processes",
    "train_from_counts.workers": "starts threads",
    "encode_files.workers": "starts processes",
    "from_model.lazy": "any value is taken for its truth",
    "warmup.part": "None compiles everything",
    "generate_data.workers": "starts threads",
}

COMMON = {"workers": 1, "engine": "serial"}


@pytest.fixture(scope="module")
def tokenizer() -> bpejit.Tokenizer:
    return bpejit.Tokenizer.from_model(MODEL)


@pytest.fixture
def calls(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Return public functions and methods by name, with valid arguments."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_bytes(b"abab <x>")
    tokenizer.encode_files(corpus, tmp_path / "tokens.bin", **COMMON)
    tokenizer.save(tmp_path / "gpt2", format="gpt2")
    counts = str(tmp_path / "c.counts")
    bpejit.count(corpus, out=counts, **COMMON)
    tokens, saved = str(tmp_path / "tokens.bin"), str(tmp_path / "gpt2")
    problem = tmp_path / "problem.toml"
    problem.write_text(
        'kind = "text2self"\nvocab_type = "character"\n[[dataset_splits]]\nsplit = "train"\ntargets = "corpus.txt"\n'
    )
    given: dict[Callable[..., Any], dict[str, Any]] = {
        bpejit.train: {"inputs": str(corpus), "vocab_size": 258, **COMMON},
        bpejit.train_bpe: {"input_path": str(corpus), "vocab_size": 258, "special_tokens": []},
        bpejit.count: {"inputs": str(corpus), **COMMON},
        bpejit.plan_count: {"inputs": str(corpus), **COMMON},
        bpejit.merge_counts: {"paths": [counts], "out": str(tmp_path / "out.counts"), "overwrite": True},
        bpejit.train_from_iterator: {"texts": ["abab"], "vocab_size": 258, **COMMON},
        bpejit.train_from_counts: {"counts": bpejit.Counts.load(counts), "vocab_size": 258},
        bpejit.explain: {"words": {"abab": 2}},
        bpejit.find_chunk_boundaries: {"file": io.BytesIO(b"abab <x>"), "desired_num_chunks": 2, "split_special_token": b"<x>"},
        bpejit.split: {"text": "abab <x>"},
        bpejit.stats: {"tokenizer": tokenizer, "inputs": str(corpus), **COMMON},
        bpejit.compare: {"first": tokenizer, "second": tokenizer, "inputs": str(corpus), **COMMON},
        bpejit.report: {"tokenizer": tokenizer, "inputs": str(corpus), **COMMON},
        bpejit.extend: {"tokenizer": tokenizer, "inputs": str(corpus), "vocab_size": 259, **COMMON},
        bpejit.tokens_by_size: {"counts": bpejit.Counts.load(counts), "tokenizer": tokenizer, "vocab_sizes": [257]},
        tokenizer.shrink: {"vocab_size": 257},
        bpejit.load: {"path": saved},
        bpejit.open_tokens: {"path": tokens},
        bpejit.convert_tokens: {"path": tokens, "out": str(tmp_path / "converted"), "format": "npy", "overwrite": True},
        bpejit.verify: {"tokenizer": tokenizer, "inputs": str(corpus), "against": "unknown"},
        bpejit.combine: {"out": str(tmp_path / "parts.bin")},
        bpejit.generate_data: {"problem": str(problem), "data_dir": str(tmp_path / "data"), "overwrite": True, **COMMON},
        bpejit.warmup: {"part": "unknown"},
        bpejit.accelerate: {"tokenizer": tokenizer},
        bpejit.acceleration_report: {"tokenizer": tokenizer},
        bpejit.train_new_from_iterator: {"tokenizer": tokenizer, "text_iterator": ["abab"], "vocab_size": 258},
        bpejit.Tokenizer: {"vocab": BYTES, "merges": []},
        bpejit.Tokenizer.from_files: {"vocab_filepath": f"{saved}/vocab.json", "merges_filepath": f"{saved}/merges.txt"},
        bpejit.Tokenizer.from_model: {"model": MODEL},
        bpejit.Model: {"tokens": BYTES, "merges": []},
        tokenizer.token_to_id: {"token": "ab"},
        tokenizer.id_to_token: {"id": 256},
        tokenizer.with_special_tokens: {"special_tokens": ["<y>"]},
        tokenizer.encode: {"text": "ab"},
        tokenizer.encode_array: {"text": "ab"},
        tokenizer.encode_ordinary: {"text": "ab"},
        tokenizer.encode_batch: {"texts": ["ab"]},
        tokenizer.encode_segments: {"segments": [("ab", True)]},
        tokenizer.encode_with_offsets: {"text": "ab"},
        tokenizer.encode_segments_with_offsets: {"segments": [("ab", True)]},
        tokenizer.encode_iterable: {"iterable": ["ab"]},
        tokenizer.encode_files: {"inputs": str(corpus), "out": str(tmp_path / "out.bin"), "overwrite": True, **COMMON},
        tokenizer.decode_bytes: {"ids": [97]},
        tokenizer.session: {"text": "a"},
        tokenizer.session("abc").append: {"text": "a"},
        tokenizer.session("abc").edit: {"start": 0, "stop": 1, "text": "a"},
        tokenizer.session_from_ids: {"ids": [97]},
        tokenizer.is_canonical: {"ids": [97]},
        tokenizer.count_batch: {"texts": ["a"]},
        tokenizer.fits: {"text": "a", "n": 1},
        tokenizer.truncate: {"text": "ab", "n": 1},
        tokenizer.chunk: {"text": "ab", "max_tokens": 1},
        tokenizer.decode: {"ids": [97]},
        tokenizer.decode_batch: {"batch": [[97]]},
        tokenizer.stream_decoder: {},
        tokenizer.decode_stream: {"ids": [97]},
        tokenizer.decode_streams: {"n": 1},
        tokenizer.decode_file: {"path": tokens, "out": str(tmp_path / "out.txt"), "overwrite": True},
        tokenizer.as_tiktoken: {},
        tokenizer.save: {"path": str(tmp_path / "new"), "overwrite": True},
    }
    return {function.__name__: (function, arguments) for function, arguments in given.items()}


def consume(result: Any) -> None:
    if isinstance(result, Iterator):
        list(result)


NAMES = [
    "accelerate",
    "acceleration_report",
    "train_new_from_iterator",
    "train",
    "train_bpe",
    "count",
    "plan_count",
    "merge_counts",
    "train_from_counts",
    "train_from_iterator",
    "explain",
    "find_chunk_boundaries",
    "split",
    "stats",
    "compare",
    "report",
    "extend",
    "tokens_by_size",
    "shrink",
    "load",
    "open_tokens",
    "convert_tokens",
    "verify",
    "warmup",
    "combine",
    "generate_data",
    "Tokenizer",
    "from_files",
    "from_model",
    "Model",
    "token_to_id",
    "id_to_token",
    "with_special_tokens",
    "encode",
    "encode_array",
    "encode_ordinary",
    "encode_batch",
    "encode_segments",
    "encode_with_offsets",
    "encode_segments_with_offsets",
    "encode_iterable",
    "encode_files",
    "session",
    "append",
    "edit",
    "session_from_ids",
    "is_canonical",
    "count_batch",
    "fits",
    "truncate",
    "chunk",
    "decode_bytes",
    "decode",
    "decode_batch",
    "stream_decoder",
    "decode_stream",
    "decode_streams",
    "decode_file",
    "as_tiktoken",
    "save",
]


@pytest.mark.compiled
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::bpejit.BpejitWarning")
def test_wrong_argument_raises_only_bpejit_errors(name: str, calls, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # some of the wrong values are valid file names
    function, given = calls[name]
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or f"{name}.{parameter.name}" in NOT_TRIED:
            continue
        for value in WRONG:
            try:
                consume(function(**{**given, parameter.name: value}))
            except bpejit.BpejitError as error:
                assert str(error)  # noqa: PT017
            except Exception as error:
                found.append(f"{name}({parameter.name}={value!r:.60}): {type(error).__name__}: {error!s:.80}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", [name for name in bpejit.__all__ if not inspect.isclass(getattr(bpejit, name))])
def test_every_public_function_is_covered(name: str) -> None:
    assert name in [
        *NAMES,
        "subword",
        "patch_transformers",
        "unpatch_transformers",
        "get_encoding_cache_budget",
        "set_encoding_cache_budget",
    ]


def test_names_of_other_libraries_get_a_hint(tmp_path):
    tokenizer = bpejit.train_from_iterator(["ab"], vocab_size=258)
    for found, name, hint in (
        (bpejit, "tarin", "did you mean train"),
        (bpejit, "get_encoding", "bpejit.load"),
        (tokenizer, "n_vocab", "use vocab_size"),
        (bpejit.Tokenizer, "from_pretrained", "bpejit.load"),
        (tokenizer, "from_pretrained", "bpejit.load"),
    ):
        assert not hasattr(found, name)
        with pytest.raises(AttributeError, match=hint):
            getattr(found, name)
    with pytest.raises(bpejit.ArgumentTypeError, match="expected vocab_size: use vocab_size=") as caught:
        bpejit.train(tmp_path, vocab=300)
    assert len(str(caught.value)) < 100
    with pytest.raises(bpejit.ArgumentTypeError, match="write vocab_size=1000 if 1000 is that one"):
        bpejit.train(tmp_path, 1000)
    for arguments in ((), ("text",), (["one", "two"],)):
        with pytest.raises(bpejit.ArgumentTypeError, match=r"`encode\(text\)`.*`as_hf\(\)\(text\)`"):
            tokenizer(*arguments)
