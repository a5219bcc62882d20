"""Tests of the borders of documents, and of indexing, in all formats of token files."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.token_files import END, HASH, byte_tokenizer, write_documents, write_sentences

from bpejit import convert_tokens
from bpejit.errors import OutputError, TokenFileError
from bpejit.tokenfiles import load_format
from bpejit.tokenfiles.description import document_index_path
from bpejit.tokenfiles.opening import open_tokens

FORMATS = ("bin", "npy", "megatron", "parquet", "llmc", "datatrove", "arrow", "text")


@pytest.mark.parametrize("ends", [[4], [-1], [2, 1], [[1]], [0.5]])
def test_wrong_ends(tmp_path: Path, ends: list[Any]) -> None:
    with (
        pytest.raises(ValueError, match="the ends of documents"),
        load_format("bin").writer(tmp_path / "t", vocab_size=10, tokenizer_sha256=HASH, document_index=True) as writer,
    ):
        writer.write(np.array([1, 2, 3]), ends=np.array(ends))
    assert list(tmp_path.iterdir()) == []


# ---- the document index


def test_document_index_is_a_numpy_file(tmp_path: Path) -> None:
    write_documents(tmp_path / "t.bin", [[1, 2], [], [3]])
    starts = np.load(tmp_path / "t.bin.docs.npy")
    assert starts.dtype == np.dtype("<i8")
    assert starts.tolist() == [0, 2, 2, 3]
    np.save(tmp_path / "numpy.npy", np.array([0, 2, 2, 3], dtype="<i8"))
    assert (tmp_path / "numpy.npy").read_bytes() == (tmp_path / "t.bin.docs.npy").read_bytes()
    description = json.loads((tmp_path / "t.bin.json").read_text())
    assert (description["format_version"], description["documents"]) == (1, 3)


def test_file_without_borders(tmp_path: Path) -> None:
    write_documents(tmp_path / "t", [[1, 2], [3]], document_index=False)
    found = open_tokens(tmp_path / "t")
    assert found.n_documents is None
    assert [(ids.tolist(), ends) for ids, ends in found.document_blocks()] == [([1, 2, 3], None)]
    with pytest.raises(TokenFileError, match=r"t.docs.npy`; expected that file: encode .* with `document_index=True`"):
        found.document(0)
    assert {path.name for path in tmp_path.iterdir()} == {"t", "t.json"}


def test_index_without_description(tmp_path: Path) -> None:
    write_documents(tmp_path / "t", [[1, 2], [3]])
    (tmp_path / "t.json").unlink()
    assert open_tokens(tmp_path / "t", dtype="uint16").document(1).tolist() == [3]


def test_old_index_is_removed(tmp_path: Path) -> None:
    write_documents(tmp_path / "t", [[1, 2], [3]])
    with pytest.raises(OutputError, match=r"already exists"):
        write_documents(tmp_path / "t", [[4]], document_index=False)
    write_documents(tmp_path / "t", [[4]], document_index=False, overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"t", "t.json"}
    assert open_tokens(tmp_path / "t").n_documents is None


def test_index_is_refused_for_streams() -> None:
    with pytest.raises(OutputError, match="cannot be written to a stream"):
        write_documents(io.BytesIO(), [[1]])
    for path in ("-", os.devnull):
        with pytest.raises(OutputError, match="the result is several files"):
            write_documents(path, [[1]])


def save(path: Path, array: Any) -> None:
    with path.open("wb") as file:
        np.save(file, np.array(array))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "there is no such file"),
        (lambda path: path.write_bytes(b""), "not a complete NumPy file"),
        (lambda path: path.write_bytes(b"\x93NUMPY\1\0" + b"x" * 200), "not a complete NumPy file"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes after its header"),
        (lambda path: save(path, [[0, 2, 3]]), "2 dimensions"),
        (lambda path: save(path, [0.0, 2, 3]), "3 numbers of float64"),
        (lambda path: save(path, np.empty(0, "<i8")), "0 numbers of int64"),
        (lambda path: save(path, [0, 2, 4]), "first and last number are 0 and 4; expected 0 and 3"),
        (lambda path: save(path, [1, 2, 3]), "first and last number are 1 and 3"),
        (lambda path: save(path, [0, 1, 2, 3]), "n_documents is 3; expected 2, as in"),
    ],
)
def test_damaged_index(tmp_path: Path, damage: Any, message: str) -> None:
    write_documents(tmp_path / "t", [[1, 2], [3]])
    damage(document_index_path(tmp_path / "t"))
    with pytest.raises(TokenFileError, match=message):
        open_tokens(tmp_path / "t")


BORDERS = [
    ([0, 3, 2, 4], "document 1 starts at 3 and ends at 2"),
    ([0, 2, 2**62, 4], f"document 1 starts at 2 and ends at {2**62}"),
    ([0, -1, 3, 4], "document 0 starts at 0 and ends at -1"),
    ([0, 5, 5, 4], "document 0 starts at 0 and ends at 5; expected ascending numbers from 0 to 4"),
]


@pytest.mark.parametrize("name", ["bin", "npy", "llmc", "datatrove"])
@pytest.mark.parametrize(("starts", "message"), BORDERS)
def test_borders_are_checked_where_they_are_used(tmp_path: Path, name: str, starts: list[int], message: str) -> None:
    write_documents(tmp_path / "t", [[1, 2], [3], [4]], name=name)
    if name == "datatrove":
        (tmp_path / "t.index").write_bytes(np.array(starts[1:], "<i8").tobytes())
    else:
        save(document_index_path(tmp_path / "t"), starts)
    found = open_tokens(tmp_path / "t")
    uses = (
        found.verify,
        lambda: list(found.document_blocks(2)),
        lambda: [found.document(number) for number in range(3)],
        lambda: convert_tokens(tmp_path / "t", tmp_path / "out", format="npy"),
    )
    for use in uses:
        with pytest.raises(TokenFileError, match=message):
            use()
    assert not (tmp_path / "out").exists()
    (tmp_path / "t.json").unlink()
    with pytest.raises(TokenFileError, match=message):
        convert_tokens(tmp_path / "t", tmp_path / "out", format="npy", input_format=name, input_dtype="uint16")


@pytest.mark.parametrize("name", FORMATS)
def test_borders_are_hashed(tmp_path: Path, name: str) -> None:
    documents = [[1, 2], [], [3], [4, 5, 6]]
    write_documents(tmp_path / "t", documents, name=name)
    others = tmp_path / "others"
    others.mkdir()
    write_documents(others / "t", [[1], [2], [3], [4, 5, 6]], name=name)
    form = load_format(name)
    described = Path(form.files(tmp_path / "t")[-1])
    fields = json.loads(described.read_text())
    assert fields["documents_sha256"] == hashlib.sha256(np.array([2, 2, 3, 6], "<i8").tobytes()).hexdigest()
    for file, other in list(zip(form.files(tmp_path / "t"), form.files(others / "t"), strict=True))[:-1]:
        Path(file).write_bytes(Path(other).read_bytes())
    found = open_tokens(tmp_path / "t")
    assert found.ids.tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(TokenFileError, match="the SHA-256 of its borders of documents is"):
        found.verify()
    with pytest.raises(TokenFileError, match="the SHA-256 of its borders of documents is"):
        convert_tokens(tmp_path / "t", tmp_path / "out", format="npy")
    del fields["documents_sha256"]  # a file of an earlier release
    described.write_text(json.dumps(fields))
    open_tokens(tmp_path / "t").verify()


@pytest.mark.parametrize("change", [{"documents_sha256": "abc"}, {"documents_sha256": "a" * 64, "documents": None}])
def test_descriptions_with_wrong_borders(tmp_path: Path, change: dict[str, Any]) -> None:
    write_documents(tmp_path / "t", [[1]])
    fields = json.loads((tmp_path / "t.json").read_text()) | change
    (tmp_path / "t.json").write_text(json.dumps({key: value for key, value in fields.items() if value is not None}))
    with pytest.raises(TokenFileError, match=r"documents_sha256 is .* beside `documents`"):
        open_tokens(tmp_path / "t")


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_borders_in_packed_rows_are_hashed(tmp_path: Path, name: str) -> None:
    for folder, documents in (("a", [[1, 2, 3], [4, 5]]), ("b", [[1, 2], [3, 4, 5]])):
        (tmp_path / folder).mkdir()
        write_documents(tmp_path / folder / "t", documents, name=name, pack=2)
        open_tokens(tmp_path / folder / "t").verify()
    fields = json.loads((tmp_path / "a" / "t.json").read_text())
    assert fields["documents_sha256"] == hashlib.sha256(np.array([2, 3, 4], "<i8").tobytes()).hexdigest()
    (tmp_path / "a" / "t").write_bytes((tmp_path / "b" / "t").read_bytes())
    with pytest.raises(TokenFileError, match="the SHA-256 of its borders of documents is"):
        open_tokens(tmp_path / "a" / "t").verify()


@pytest.mark.parametrize("name", ["bin", "npy", "llmc", "megatron", "datatrove", "parquet", "text"])
def test_jobs_describe_the_borders(tmp_path: Path, name: str) -> None:
    write_sentences(tmp_path / "in.jsonl")
    options: dict[str, Any] = {"format": name, "document_index": True, "append_token": END}
    byte_tokenizer().encode_files(tmp_path / "in.jsonl", tmp_path / "t", **options)
    found = open_tokens(tmp_path / "t")
    found.verify()
    ends = np.cumsum([found.document(number).size for number in range(found.n_documents or 0)], dtype="<i8")
    fields = json.loads(Path(load_format(name).files(tmp_path / "t")[-1]).read_text())
    assert fields["documents_sha256"] == hashlib.sha256(ends.tobytes()).hexdigest()


@pytest.mark.parametrize("word", [b"1_0", b"+1", b"-0", b"0x1", b"0" * 5000, b"9" * 11, b"\xb2"])
def test_text_that_is_no_id(tmp_path: Path, word: bytes) -> None:
    (tmp_path / "t.ids").write_bytes(b"5 6\n7 " + word + b" 8\n")
    with pytest.raises(TokenFileError, match=r"line 2: .* is not a token id"):
        open_tokens(tmp_path / "t.ids")


def test_text_without_spaces_is_not_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpejit.tokenfiles.text_files._BYTES", 8)
    (tmp_path / "t.ids").write_bytes(b"1 2\n" + b"7" * 100)
    with pytest.raises(TokenFileError, match=r"line 2: '777777777\d*' is not a token id"):
        open_tokens(tmp_path / "t.ids")


def test_lines_of_all_blocks_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.ids").write_bytes(b"5 6 \n\n7\n\n 8 x\n")
    for size in (2, 3, 4, 100):
        monkeypatch.setattr("bpejit.tokenfiles.text_files._BYTES", size)
        with pytest.raises(TokenFileError, match="line 5: 'x' is not a token id"):
            open_tokens(tmp_path / "t.ids")


def test_largest_number_of_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"1\n%d 00%d" % (2**32 - 1, 2**32 - 1))
    assert open_tokens(path, format="text").ids.tolist() == [1, 2**32 - 1, 2**32 - 1]
    path.write_bytes(b"1\n%d %d" % (2**32 - 1, 2**32))
    with pytest.raises(TokenFileError, match="line 2: '4294967296' is not a token id"):
        open_tokens(path, format="text")


@pytest.mark.parametrize("name", FORMATS)
def test_converting_tells_its_progress(tmp_path: Path, name: str) -> None:
    write_documents(tmp_path / "t", [[1, 2, 3], [4]], name=name, block=2)
    calls: list[tuple[Any, ...]] = []
    convert_tokens(tmp_path / "t", tmp_path / "out", format="npy", progress=lambda *call: calls.append(call))
    assert calls[0] == ("verify", 0, 4, "tokens")  # first, since the new file has another hash
    assert [call[1] for call in calls if call[0] == "verify"] == sorted(call[1] for call in calls if call[0] == "verify")
    done = [call for call in calls if call[0] == "convert"]
    assert (done[0], done[-1]) == (("convert", 0, 4, "tokens"), ("convert", 4, 4, "tokens"))
    assert calls[-len(done) - 1] == ("verify", 4, 4, "tokens")
