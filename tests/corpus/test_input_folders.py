"""Tests of folders of records: files that describe a data set are left out, and a mixture of formats is refused."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from helpers.cli import invoke
from helpers.input_forms import json_lines, table, write_parquet

import bpejit
from bpejit.corpus.contents import Contents
from bpejit.corpus.sources import find_sources
from bpejit.errors import BpejitWarning, CorpusError

INFO = {"citation": "", "features": {"text": {"dtype": "string", "_type": "Value"}}, "license": ""}
STATE = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": None}


def write_stream(path: Path, texts: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = table(texts)
    with pa.ipc.new_stream(path, data.schema) as writer:
        writer.write_table(data)


def write_saved(folder: Path, texts: list[str]) -> None:
    """Write what `Dataset.save_to_disk` of the package `datasets` writes."""
    write_stream(folder / "data-00000-of-00001.arrow", texts)
    (folder / "dataset_info.json").write_text(json.dumps(INFO, indent=2))
    (folder / "state.json").write_text(json.dumps(STATE, indent=2))


def names(inputs: Path | list[Path], **options: object) -> list[str]:
    return [Path(source.path).name for source in find_sources(inputs, Contents(**options))]  # type: ignore[arg-type]


def test_saved_data_sets(tmp_path: Path) -> None:
    write_saved(tmp_path / "one", ["one", "two"])
    write_stream(tmp_path / "one" / "cache-0123456789abcdef.arrow", ["computed from them"])
    expected = bpejit.count(iter(["one", "two"])).table
    with pytest.warns(
        BpejitWarning, match=r"arrow`, .*dataset_info.json`, .*state.json` describe records, and are not read"
    ) as w:
        assert bpejit.count(tmp_path / "one").table == expected
    assert len(w) == 1
    write_saved(tmp_path / "all" / "train", ["one"])
    write_saved(tmp_path / "all" / "test", ["two"])
    (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.warns(BpejitWarning, match="and 2 more inputs describe records"):
        assert bpejit.count(tmp_path / "all").table == expected
    with pytest.warns(BpejitWarning, match="describe records"):
        assert names(tmp_path / "all", input_format="arrow") == ["data-00000-of-00001.arrow"] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bpejit.count([tmp_path / "one" / "data-00000-of-00001.arrow"]).table == expected
        assert "state.json" in names(tmp_path / "one", input_format="text")


@pytest.mark.parametrize("indent", [None, 2])
def test_caches_of_data_sets(indent: int | None, tmp_path: Path) -> None:
    folder = tmp_path / "name" / "0.0.0" / "hash"
    write_stream(folder / "name-train.arrow", ["one", "two"])
    (folder / "dataset_info.json").write_text(json.dumps(INFO, indent=indent))
    (tmp_path / "name" / "0.0.0" / "hash_builder.lock").touch()
    with pytest.warns(BpejitWarning, match=r"dataset_info.json` describes records, and is not read; give a file by its name"):
        assert bpejit.count(tmp_path).table == bpejit.count(iter(["one", "two"])).table


@pytest.mark.parametrize("given", ["name", "name/snapshots/1a2b"])
def test_repositories_of_the_hub(given: str, tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "name" / "snapshots" / "1a2b", tmp_path / "name" / "blobs"
    for path in (snapshot / "data", blobs, tmp_path / "name" / "refs"):
        path.mkdir(parents=True)
    (tmp_path / "name" / "refs" / "main").write_text("1a2b")
    write_parquet(blobs / "0", ["one", "two"])
    texts = {"README.md": "# About", "LICENSE": "Free", "LICENSE-CODE.txt": "Free", ".gitattributes": "x"}
    texts["dataset_infos.json"] = json.dumps({"default": INFO}, indent=1)
    for number, (name, text) in enumerate(texts.items(), 1):
        (blobs / str(number)).write_text(text)
        (snapshot / name).symlink_to(f"../../blobs/{number}")
    (snapshot / "data" / "train.parquet").symlink_to("../../../blobs/0")
    with pytest.warns(BpejitWarning, match=r"LICENSE`, .*README.md` and 1 more inputs describe records"):
        assert bpejit.count(tmp_path / given).table == bpejit.count(iter(["one", "two"])).table
    (tmp_path / "name" / "snapshots" / "3c4d").mkdir()
    if given == "name":
        with pytest.raises(CorpusError, match=r"has 2 snapshots of a repository; .*give the folder of one.*1a2b`, .*3c4d`"):
            bpejit.count(tmp_path / given)


def test_mixed_folders_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("mixed")
    (folder / "inner").mkdir(parents=True)
    for name in ("a.jsonl", "inner/b.jsonl"):
        (folder / name).write_bytes(json_lines(["one"]))
    (folder / "a.txt").write_text("text")
    with pytest.raises(CorpusError) as caught:
        bpejit.train(folder, vocab_size=257)
    assert str(caught.value) == (
        "the folder `mixed` has inputs of different formats: 2 of JSON lines (`mixed/a.jsonl`, `mixed/inner/b.jsonl`), and 1 "
        "of plain text (`mixed/a.txt`); expected one: give a glob, such as `mixed/**/*.jsonl` or `mixed/*.txt`, or several "
        'globs to read all of them (`input_format="text"` reads all as text)'
    )
    (folder / "a.txt").unlink()
    write_parquet(folder / "c.parquet", ["two"])
    with pytest.raises(
        CorpusError, match=r"2 of JSON lines \(.*\), and 1 of Parquet .*`mixed/\*\*/\*\.jsonl` or `mixed/\*\.parq"
    ):
        bpejit.count(str(folder))
    with pytest.raises(CorpusError, match="the folder `mixed` has inputs of different formats"):
        bpejit.count("mix*")
    expected = bpejit.count(iter(["one", "one", "two"])).table
    assert bpejit.count(["mixed/**/*.jsonl", "mixed/*.parquet"]).table == expected
    assert bpejit.count(sorted(path for path in folder.rglob("*") if path.is_file())).table == expected
    assert len(names(folder, input_format="text")) == 3
    (folder / "c.parquet").unlink()
    (folder / "d").write_text("name without a suffix")
    with pytest.raises(CorpusError, match=r"such as .*`mixed/d`"):
        bpejit.count(folder)
    assert invoke("count", "mixed", "--out", "c", "--input-format", "text").exit_code == 0


def test_folders_that_are_not_mixed(tmp_path: Path) -> None:
    def fill(name: str, files: dict[str, bytes]) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for file, data in files.items():
            (folder / file).write_bytes(data)
        return folder

    lines = json_lines(["one"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        texts = {"README.md": b"about", "LICENSE": b"free", "state.json": b"words", "a.txt": b"one"}
        texts["b.txt.gz"] = gzip.compress(b"two")
        assert len(names(fill("texts", texts))) == 5
        assert len(names(fill("records", {"a.jsonl": lines, "b.json": lines, "c.jsonl.gz": gzip.compress(lines)}))) == 3
        assert len(names(fill("spark", {"part-0.json": lines, "_SUCCESS": b""}))) == 2
        assert len(names(fill("only metadata", {"dataset_info.json": json.dumps(INFO).encode()}))) == 1


def test_commands_name_what_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_saved(Path("saved"), ["one two", "three"])
    result = invoke("train", "saved", "--vocab-size", "257", "--out", "t")
    assert result.exit_code == 0, result.stderr
    note = "note: `saved/dataset_info.json`, `saved/state.json` describe records, and are not read"
    assert result.stderr.count(note) == 1
    assert invoke("encode", "saved", "--tokenizer", "t", "--out", "o").stderr.count(note) == 1
    assert bpejit.load("t").decode(bpejit.open_tokens("o").ids) == "one twothree"
