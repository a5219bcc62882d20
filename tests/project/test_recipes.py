"""Tests of the recipes: their examples run, and the results are those of the other projects."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, data_text, read_shared
from helpers.cli import invoke
from helpers.compat import tiktoken_named
from hypothesis import given, strategies as st

import bpejit
from bpejit.corpus import registry
from bpejit.errors import CorpusError
from bpejit.testing import check_input_format

END = "<|endoftext|>"
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "recipes").glob("*.md")}
WITHOUT_DATA = sorted({*PAGES} - {"index", "nanogpt", "dataloader"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with the files that the examples expect."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "texts.txt").write_bytes(data_text("prose.txt")[:50_000] + data_text("code.txt")[:150_000])
    ((_, making),) = examples("index")
    exec(compile(making, "a recipe", "exec"), {})
    records = [{"text": f"ordinary text in a record: {END}", "id": 1000}, {"text": "", "id": 1001}]
    lines = [json.dumps(record) + "\n" for record in records]
    (tmp_path / "documents" / "2.jsonl").write_text("".join(lines), encoding="utf-8")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    return tmp_path


def examples(name: str) -> list[tuple[str, str]]:
    """Return the language and the text of the examples of a page."""
    return re.findall(r"^```(python|console)\n(.*?)^```", PAGES[name], re.MULTILINE | re.DOTALL)


def run_console(session: str) -> None:
    for line in session.replace("\\\n", "").splitlines():
        arguments = shlex.split(line.removeprefix("$ "))
        if arguments[0] == "bpejit":
            result = invoke(*arguments[1:])
            assert result.exit_code == 0, f"{line}\n{result.output}"
        else:
            subprocess.run(arguments, check=True)


def run_python(example: str, names: dict[str, Any]) -> set[str]:
    """Run an example, unless it needs packages that are not installed, and return these."""
    packages = re.findall(r"^(?:import|from) (\w+)", example, re.MULTILINE)
    missing = {name for name in packages if name not in sys.modules and importlib.util.find_spec(name) is None}
    if not missing:
        exec(compile(example, "a recipe", "exec"), names)
    return missing


@pytest.mark.compiled
@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_recipe(name: str, folder: Path) -> None:
    names: dict[str, Any] = {"__name__": "recipe"}
    missing: set[str] = set()
    known = {*registry.input_format_names()}
    try:
        for language, example in examples(name):
            if language == "console":
                run_console(example)
            elif not missing:  # the examples of a page continue each other
                missing = run_python(example, names)
    finally:
        for form in {*registry.input_format_names()} - known:
            registry.unregister(form)
    if missing:
        pytest.skip(f"{min(missing)} is not installed")


@pytest.mark.compiled
def test_recipe_for_nanogpt(folder: Path) -> None:
    (folder / "r50k_base.tiktoken").write_bytes(read_shared("vocabs/r50k_base.tiktoken"))
    encoding = tiktoken_named("r50k_base")
    lines = [line for path in sorted(folder.glob("documents/*")) for line in path.read_text("utf-8").splitlines()]
    texts = [json.loads(line)["text"] for line in lines]
    wanted = sorted([*encoding.encode_ordinary(text), encoding.eot_token] for text in texts)
    (_, session), (_, one_text), (_, data_set), (_, reading) = examples("nanogpt")

    def documents() -> list[list[int]]:
        ids = np.concatenate([np.fromfile(f"{name}.bin", np.uint16) for name in ("train", "val")])
        assert np.fromfile("val.bin", np.uint16)[-1] == encoding.eot_token
        return sorted(found.tolist() for found in np.split(ids, np.flatnonzero(ids == encoding.eot_token) + 1)[:-1])

    run_console(session)
    assert documents() == wanted
    names: dict[str, Any] = {"__name__": "recipe"}
    assert not run_python(one_text, names)
    text = (folder / "corpus.txt").read_text(encoding="utf-8")
    at = int(len(text) * 0.9)
    for name, part in (("train", text[:at]), ("val", text[at:])):
        assert np.fromfile(f"{name}.bin", np.uint16).tolist() == encoding.encode_ordinary(part)
    assert not run_python(reading, names)
    assert np.array_equal(names["x"][:, 1:], names["y"][:, :-1])
    missing = run_python(data_set, names)
    if missing:
        pytest.skip(f"{min(missing)} is not installed")
    assert documents() == wanted
    for name, part in names["split"].items():
        ids = [i for text in part["text"] for i in [*encoding.encode_ordinary(text), encoding.eot_token]]
        assert np.fromfile({"train": "train.bin", "test": "val.bin"}[name], np.uint16).tolist() == ids


@pytest.mark.compiled
def test_recipe_for_servers(folder: Path) -> None:
    """Each answer is the decoded ids that the model repeats, up to a stop string."""
    (_, session), (_, serving) = examples("server")
    run_console(session)
    names: dict[str, Any] = {"__name__": "recipe"}
    assert not run_python(serving, names)
    assert len(names["prompts"]) > names["N_STREAMS"]
    for name, prompt in enumerate(names["prompts"]):
        ids = names["tokenizer"].truncate(prompt, names["CONTEXT"], side="left").ids
        repeated = (ids * names["LONGEST"])[: names["LONGEST"]]
        whole = names["tokenizer"].decode(repeated)
        assert names["answers"][name] == re.split("\n\n|User:", whole)[0]


@pytest.mark.compiled
def test_recipe_for_datatrove(folder: Path) -> None:
    """The steps write the files and the counts of those of datatrove."""
    pytest.importorskip("datatrove")
    (_, session), (_, steps), _ = examples("datatrove")
    run_console(session)
    names: dict[str, Any] = {"__name__": "recipe"}
    assert not run_python(steps, names)
    from datatrove.pipeline.tokens import DocumentTokenizer, TokensCounter

    written, counted = [], []
    for place, path, counter, tokenizer in (
        ("ours", "tokenizer", names["Counter"], names["Tokenizer"]),
        ("theirs", "tokenizer/tokenizer.json", TokensCounter, DocumentTokenizer),
    ):
        count = counter(path, count_eos_token=True)
        steps = [names["JsonlReader"]("documents"), count, tokenizer(place, path, eos_token=END, seed=1)]
        names["LocalPipelineExecutor"](steps, logging_dir=f"logs-{place}").run()
        stats = json.loads((folder / f"logs-{place}" / "stats.json").read_text(encoding="utf-8"))
        counted.append([step["stats"]["tokens"]["total"] for step in stats[1:]])
        written.append({file.name: file.read_bytes() for file in (folder / place).iterdir() if file.suffix != ".metadata"})
    assert counted[0] == counted[1]
    assert written[0] == written[1]


def merged(ids: list[bytes], left: bytes, right: bytes) -> list[bytes]:
    """Return tokens after one merge, from the left."""
    found: list[bytes] = []
    for token in ids:
        if found and (found[-1], token) == (left, right):
            found[-1] = left + right
        else:
            found.append(token)
    return found


@pytest.mark.compiled
def test_recipe_for_superwords(folder: Path) -> None:
    """The examples run, and `tokenizers` gives the same ids; the merges are tested elsewhere."""
    import tokenizers

    text = (folder / "corpus.txt").read_text(encoding="utf-8")[:20_000].replace(END, "")
    (folder / "corpus.txt").write_text(text, encoding="utf-8")
    for language, example in examples("superwords"):
        code = example.replace("2000", "450").replace("1800", "430").replace("1600", "400")
        if language == "console":
            run_console(code)
        else:
            assert not run_python(code, {"__name__": "recipe"})
    found = bpejit.load("superwords")
    judge = tokenizers.Tokenizer.from_file("superwords/tokenizer.json")
    for line in (text, text[::-1], data_text("code.txt")[:5000].decode()):
        assert judge.encode(line, add_special_tokens=False).ids == found.encode(line)


class StandIn:
    """What the recipe uses of PyTorch, for environments without it."""

    class Dataset:
        pass

    class DataLoader:
        def __init__(self, dataset: Any, *, batch_size: int, shuffle: bool = False, sampler: Any = None, num_workers: int = 0):
            self.dataset, self.batch_size = dataset, batch_size
            order = np.random.default_rng(0).permutation(len(dataset)) if shuffle else np.arange(len(dataset))
            self.order = order if sampler is None else [*sampler]

        def __iter__(self) -> Any:
            for start in range(0, len(self.order), self.batch_size):
                items = [self.dataset[int(number)] for number in self.order[start : start + self.batch_size]]
                yield [np.stack(column) for column in zip(*items, strict=True)]

    from_numpy = staticmethod(np.asarray)


@pytest.mark.compiled
def test_recipe_for_data_loaders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("torch") is None:
        stand_in = types.ModuleType("torch")
        stand_in.from_numpy = StandIn.from_numpy  # type: ignore[attr-defined]
        stand_in.utils = types.SimpleNamespace(data=StandIn)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "torch", stand_in)
    names: dict[str, Any] = {"__name__": "recipe"}
    (_, session), (_, first), (_, order), (_, ranks), (_, shards) = examples("dataloader")
    run_console(session)
    tokenizer = bpejit.load("tokenizer")
    assert len([*folder.glob("shards-*.bin")]) > 1
    run_python(first, names)
    copied, arguments = names["windows"].__reduce__()
    assert copied(*arguments)[3][0].tolist() == names["windows"][3][0].tolist()
    inputs, targets = names["inputs"], names["targets"]
    assert tuple(inputs.shape) == tuple(targets.shape) == (8, 128)
    assert inputs[:, 1:].tolist() == targets[:, :-1].tolist()
    assert str(inputs.dtype).endswith("int64")
    ids = tokenizer.encode_array((folder / "corpus.txt").read_bytes())
    windows = [ids[start : start + 128].tolist() for start in range(0, ids.size - 128, 128)]
    assert inputs[0].tolist() in windows
    run_python(order, names)
    run_python(ranks, names)
    position = {"rank": 1, "n_ranks": 2, "seed": 1}
    others = [x.tolist() for x, _ in names["make_loader"](names["windows"], 8, **position)]
    seen = [window for batch in [*names["batches"], *others] for window in batch]
    assert len(names["batches"]) == len(others) == len(windows) // 16
    assert not Counter(map(tuple, seen)) - Counter(map(tuple, windows))  # each window once, on one rank
    run_python(shards, names)
    assert names["inputs"][:, 1:].tolist() == names["targets"][:, :-1].tolist()
    assert [names["shards"][number][0].tolist() for number in range(len(windows))] == windows


WARC = (
    (
        b"WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Type: application/warc-fields\r\nContent-Length: 22\r\n\r\n"
        b"software: an example\r\n\r\n\r\n"
    ),
    (
        b"WARC/1.1\r\nwarc-type:conversion\r\nWARC-Target-URI: http://example.org/\r\nContent-Length: 15\r\n\r\n"
        b"one\r\n\r\nWARC/1.0\r\n\r\n"
    ),  # its text contains what ends a record
    b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 4\r\n\r\nHTTP\r\n\r\n",
    b"WARC/1.1\r\nContent-Length: 0\r\nWARC-Type: conversion\r\n\r\n\r\n\r\n",
)
WARC_TEXTS = ["one\r\n\r\nWARC/1.0", ""]


def test_reader_of_web_archives(tmp_path: Path) -> None:
    """Records of both versions, with fields in any order and case, are read; damaged ones are refused with their position."""
    names: dict[str, Any] = {"__name__": "recipe"}
    (_, module), *_ = examples("warc")
    assert len(module.splitlines()) <= 80
    content = b"".join(WARC)
    path = tmp_path / "pages.warc.gz"
    try:
        exec(compile(module, "a recipe", "exec"), names)
        check_input_format("warc", content, WARC_TEXTS, name="pages.warc")
        check_input_format("warc", content, WARC_TEXTS, name="pages")  # recognized by its content
        path.write_bytes(b"".join(map(gzip.compress, WARC)))
        assert bpejit.count(path).table == bpejit.count(iter(WARC_TEXTS)).table
        third = sum(map(len, WARC[:2]))
        for damaged in (content[: third + 5], content[: third + len(WARC[2]) - 1], content.replace(b"Length: 4", b"Length: 5")):
            for written in (damaged, gzip.compress(damaged)):
                path.write_bytes(written)
                with pytest.raises(
                    CorpusError, match=rf"no complete record of WARC 1 at byte {third} of its records; expected"
                ):
                    bpejit.count(path)
        path.write_bytes(content.replace(b"Length: 4", b"Length: x"))
        with pytest.raises(CorpusError, match=rf"at byte {third} "):
            bpejit.count(path)
    finally:
        registry.unregister("warc")


def order_of_windows() -> Any:
    """Return the class of the recipe that orders windows, which needs no PyTorch."""
    names: dict[str, Any] = {"__name__": "recipe"}
    (example,) = [text for language, text in examples("dataloader") if "class Order" in text]
    exec(compile(example, "a recipe", "exec"), names)
    return names["Order"]


@given(
    n_windows=st.integers(0, 600),
    batch_size=st.integers(1, 9),
    n_ranks=st.integers(1, 5),
    seed=st.integers(0, 2**32),
    epoch=st.integers(0, 9),
    data=st.data(),
)
def test_order_of_windows(n_windows: int, batch_size: int, n_ranks: int, seed: int, epoch: int, data: Any) -> None:
    """The ranks share the windows, with equal numbers of batches, and an order continues from any batch."""
    make = order_of_windows()
    options = {"n_ranks": n_ranks, "seed": seed, "epoch": epoch}
    orders = [list(make(n_windows, batch_size, rank=rank, **options)) for rank in range(n_ranks)]
    n_batches = n_windows // (batch_size * n_ranks)
    assert {len(order) for order in orders} == {n_batches * batch_size}
    seen = [window for order in orders for window in order]
    assert len(set(seen)) == len(seen)
    assert all(0 <= window < n_windows for window in seen)
    whole = make(n_windows, 1, seed=seed, epoch=epoch)
    assert sorted(whole) == list(range(n_windows)), "a permutation"
    rank, done = data.draw(st.integers(0, n_ranks - 1)), data.draw(st.integers(0, n_batches))
    rest = make(n_windows, batch_size, rank=rank, done=done, **options)
    assert (len(rest), list(rest)) == ((n_batches - done) * batch_size, orders[rank][done * batch_size :])
    if n_batches * batch_size > 20:
        others = make(n_windows, batch_size, rank=rank, **(options | {"epoch": epoch + 1}))
        assert list(others) != orders[rank], "another epoch"


def test_order_of_many_windows() -> None:
    """The order takes no memory for the windows, and is even."""
    many = 10**13 + 7
    order = iter(order_of_windows()(many, 4, seed=1))
    first = [next(order) for _ in range(4000)]
    assert len(set(first)) == 4000
    shares = np.bincount(np.array(first) * 10 // many, minlength=10)
    assert shares.size == 10
    assert shares.min() > 300
    assert shares.max() < 500
    steps = np.diff(np.array(first)) > 0
    assert 0.45 < steps.mean() < 0.55


def test_list_of_recipes() -> None:
    assert set(re.findall(r"^- \[.*?\]\((\w+)\.md\)", PAGES["index"], re.MULTILINE)) == {*PAGES} - {"index"}
