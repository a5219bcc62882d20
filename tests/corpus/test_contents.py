"""Tests of checks on input contents: binary files are refused, and byte order marks are reported."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import random
import sqlite3
import threading
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import DATA, data_text, read_shared
from helpers.cli import SEPARATELY, invoke
from hypothesis import given, strategies as st

import bpejit
from bpejit.corpus import input_paths
from bpejit.corpus.contents import BYTE_ORDER_MARK, HEAD_BYTES, Contents, has_controls, recognize_contents
from bpejit.corpus.sources import Source, find_sources
from bpejit.errors import BpejitError, CorpusError
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder

TEXT = ("A quick brown fox; " * 40 + "\n").encode()
WORDS = "Größe, низ, 漢字, and some English.\n" * 20


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", TEXT)
    return file.getvalue()


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def database(folder: Path) -> bytes:
    connection = sqlite3.connect(folder / "x.db")
    connection.execute("create table t (x)")
    connection.commit()
    connection.close()
    return (folder / "x.db").read_bytes()


BINARY: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "bzip2": (lambda _: bz2.compress(TEXT), "compressed with bzip2"),
    "empty bzip2": (lambda _: bz2.compress(b""), "compressed with bzip2"),
    "xz": (lambda _: lzma.compress(TEXT), "compressed with xz"),
    "lzma": (lambda _: lzma.compress(TEXT, lzma.FORMAT_ALONE), "compressed with lzma"),
    "lz4": (lambda _: bytes.fromhex("04224d18604082") + TEXT, "compressed with lz4"),
    "zip": (lambda _: zipped(), "a zip archive"),
    "sqlite": (database, "an SQLite database"),
    "npy": (lambda _: npy(np.arange(9)), "a NumPy array"),
    "encrypted Parquet": (lambda _: b"PARE" + bytes(range(100)), "a Parquet file"),
    "Feather of version 1": (lambda _: b"FEA1" + bytes(range(100)), "a Feather file"),
    "gzip in gzip": (lambda _: gzip.compress(gzip.compress(TEXT)), "compressed with gzip; expected text: decompress it first"),
    **{
        f"pickle {protocol}": (lambda _, protocol=protocol: pickle.dumps({"text": [TEXT] * 3}, protocol), "a pickle")
        for protocol in (2, 3, 4, 5)
    },
    "PNG": (lambda _: b"\x89PNG\r\n\x1a\n" + bytes(50), "a PNG image"),
    "PDF": (lambda _: b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF file"),
    "ELF": (lambda _: b"\x7fELF\x02\x01\x01" + bytes(9), "a program"),
    "UTF-16": (lambda _: WORDS.encode("utf-16"), "text in UTF-16; expected text: convert it to UTF-8 first"),
    "UTF-16BE": (lambda _: b"\xfe\xff" + WORDS.encode("utf-16-be"), "text in UTF-16;"),
    "UTF-32": (lambda _: WORDS.encode("utf-32"), "text in UTF-32;"),
    "bare UTF-16LE": (lambda _: TEXT.decode().encode("utf-16-le"), "text in UTF-16LE without a byte-order mark"),
    "bare UTF-16BE": (lambda _: TEXT.decode().encode("utf-16-be"), "text in UTF-16BE without a byte-order mark"),
    "bare UTF-32LE": (lambda _: TEXT.decode().encode("utf-32-le"), "text in UTF-32LE without a byte-order mark"),
    "bare UTF-32BE": (lambda _: TEXT.decode().encode("utf-32-be"), "text in UTF-32BE without a byte-order mark"),
    "token file": (lambda _: np.arange(1000, dtype=np.uint16).tobytes(), "binary data (42 % of its first bytes are control"),
    "random bytes": (lambda _: random.Random(1).randbytes(3000), "nearly all equally frequent"),
    "few random bytes": (lambda _: random.Random(2).randbytes(256), "nearly all equally frequent"),
    "floats": (lambda _: np.arange(900, dtype=np.float32).tobytes(), "NUL"),
}


@pytest.mark.parametrize("kind", BINARY)
def test_binary_files_are_refused(kind: str, tmp_path: Path) -> None:
    make, what = BINARY[kind]
    path = tmp_path / "input"
    path.write_bytes(make(tmp_path))
    with pytest.raises(bpejit.CorpusError) as caught:
        bpejit.train(path, vocab_size=257)
    assert f"the input `{path}` is " in str(caught.value)
    assert what in str(caught.value)
    assert 'pass `input_format="text"`' in str(caught.value)
    assert bpejit.train(path, vocab_size=257, input_format="text").vocab_size == 257


ENCODINGS = (
    "utf-8",
    "latin-1",
    "shift_jis",
    "euc_jp",
    "gb18030",
    "big5",
    "euc_kr",
    "koi8-r",
    "cp1251",
    "iso2022_jp",
    "iso2022_kr",
    "cp037",
)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_text_in_other_encodings_passes(encoding: str) -> None:
    for name in ("prose.txt", "cjk.txt", "code.txt"):
        text = data_text(name).decode()
        for start in range(0, min(len(text), 5000), 97):
            data = text[start : start + 300].encode(encoding, "ignore")
            assert recognize_contents(data) is None, data


def test_text_with_all_kinds_of_characters_passes() -> None:
    generator = random.Random(3)
    characters = [chr(point) for point in range(32, 0x11000) if not 0xD800 <= point < 0xE000]
    for size in (100, 400, 1500):
        assert recognize_contents("".join(generator.choices(characters[:256], k=size)).encode()) is None
        assert recognize_contents("".join(generator.choices(characters, k=size)).encode()[:-1]) is None
    assert recognize_contents(bytes(range(32, 256)) * 9) is None  # each character of Latin-1


def test_damaged_text_and_small_inputs_pass() -> None:
    assert recognize_contents(b"") is None
    assert all(
        recognize_contents(bytes([first, second])) is None for first in range(0xC0) for second in range(256) if first != 0x1F
    )
    assert recognize_contents(b"one\0two\0three\0" * 100) is None  # the output of `find -print0`
    assert recognize_contents(b"ab\0" * 6) is None
    assert recognize_contents(b"name\x1d" * 20) is None  # fields that end with a separator
    assert recognize_contents(b"a\0" * 7) is None
    for text in (
        "MZ is a name",
        "PARTS",
        "BZh9 is no archive",
        "GIF89a is a format",
        "RIFF",
        "Obj",
        "%PDF is a format",
        "Rar!",
    ):
        assert recognize_contents(text.encode()) is None


def test_smallest_inputs_that_are_judged_by_their_bytes() -> None:
    for data in ("eight ch".encode("utf-16-le"), bytes([1, 200]) * 32, random.Random(2).randbytes(128)):
        assert recognize_contents(data) is not None
        assert recognize_contents(data[:-1]) is None


def test_the_first_faulty_file_is_reported(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.txt" for number in range(4)]
    files[0].write_bytes(b"text")
    files[1].write_bytes(b"\x01\x02" * 100)
    with pytest.raises(CorpusError, match=r"1\.txt` is binary data"):
        find_sources(files)
    files[1].write_bytes(b"text\0with one NUL")
    with pytest.raises(CorpusError, match=r"cannot read the input .*2\.txt"):
        find_sources(files)
    files[1].write_bytes(b"\x01\x02" * 100)
    with pytest.raises(CorpusError, match=r"1\.txt` is binary data"):
        find_sources([files[0], files[1], str(tmp_path / "*.none")])


def test_files_examined_together_are_as_if_examined_alone(tmp_path: Path) -> None:
    contents = [
        b"",
        TEXT,
        BYTE_ORDER_MARK + TEXT,
        gzip.compress(TEXT),
        b"one\0NUL",
        b"\x1b[1mbold",
        b"\x02" * 10 + TEXT,
        b"x" * 70_000,
    ]
    names = ["a.txt", "b", "c.md", "d.gz", "e", "f", "g", "h", "i.jsonl", "j.json"]
    for index in range(80):
        data = [*contents, b'{"text": "a"}\n', b'{"text": "a"}\n'][index % 10]
        (tmp_path / f"{index:02d}{names[index % 10]}").write_bytes(data)

    def sources_of(paths: list[Path]) -> list[Source]:
        checks = Contents(strip_bom=True)
        checks.hashed = True
        return find_sources(paths, checks)

    found = sources_of(sorted(tmp_path.iterdir()))
    assert [Path(source.path).name for source in found] == sorted(path.name for path in tmp_path.iterdir())
    for source in found:
        (alone,) = sources_of([Path(source.path)])
        assert alone == source
        assert (alone.kept, alone.sha256) == (source.kept, source.sha256)


def test_the_first_faulty_file_of_a_folder_is_reported(tmp_path: Path) -> None:
    for index in range(70):
        (tmp_path / f"{index:02d}.txt").write_bytes(TEXT)
    (tmp_path / "40.txt").write_bytes(b"\xff\xfe" + TEXT)
    (tmp_path / "66.txt").write_bytes(bz2.compress(TEXT))
    with pytest.raises(CorpusError, match=r"40\.txt` is text in UTF-16"):
        find_sources(tmp_path)
    (tmp_path / "39.txt").unlink()
    (tmp_path / "39.txt").symlink_to(tmp_path / "none")
    with pytest.raises(CorpusError, match=r"cannot read the input .*39\.txt"):
        find_sources(sorted(tmp_path.iterdir()))


@given(st.binary(max_size=40))
def test_quick_test_for_control_characters(head: bytes) -> None:
    exact = b"\0" in head or any(byte in head for byte in [*range(1, 8), *range(14, 27), *range(28, 32)])
    assert has_controls(head) == (exact or b"\x1b" in head)


def test_quick_test_for_each_byte() -> None:
    found = {number for number in range(256) if has_controls(bytes([number]))}
    assert found == {*range(8), *range(14, 32)}
    assert not has_controls(b"")


STARTS = [
    *(
        b"",
        b"{",
        b"PAR1",
        b"PAR",
        b"ARROW1",
        b"ARR",
        b"\xff\xff\xff\xff",
        b"\xef\xbb\xbf",
        b"\xef",
        b"\x28\xb5\x2f\xfd",
        b"The ",
    ),
    *(b"PK", b"BZh9", b"%PDF-1.4", b"GIF89a\xff\xff\xff\xff,", b"x" * 257 + b"ustar ", b"Obj\x01", b"!<arch>\n"),
]
HEADS = st.one_of(st.binary(max_size=40), st.builds(bytes.__add__, st.sampled_from(STARTS), st.binary(max_size=20)))
NAMES = st.sampled_from(
    ["a.txt", "a", "b.JSON", "b.jsonl", "c.parquet", "c.Arrow", "d.jsonl.gz", "d.txt.zst", "e.feather", "-"]
)


@given(name=NAMES, head=HEADS, input_format=st.sampled_from(["auto", "text", "jsonl"]))
def test_plain_text_is_recognized_as_text(name: str, head: bytes, input_format: str) -> None:
    contents = Contents(input_format=input_format)
    head = bytes(byte for byte in head if byte not in (0, 27) and not has_controls(bytes([byte])))
    if contents.is_plain(name, head):
        assert contents.compression(head) is None
        assert contents.recognize(name, head, clean=True) == ("text", 0)
        assert not contents.marked


def test_most_text_is_plain() -> None:
    contents = Contents()
    assert all(contents.is_plain("a.txt", head) for head in (b"The", b"the", "é".encode(), "日本".encode(), b" x", b"1"))
    assert not contents.is_plain("a.jsonl", b"the")


class _Entry:
    def __fspath__(self) -> str:
        return "x"


ENTRIES = st.sampled_from(
    ["a", "b/c", Path("d"), "", "e\0", b"f", None, 7, "\ud800", "\udcff", "file:///g", "s3://h/i", _Entry()]
)


@given(entries=st.lists(ENTRIES, max_size=3))
def test_names_tested_together_are_as_if_tested_alone(entries: list[Any]) -> None:
    def names(some: list[Any]) -> Any:
        try:
            return input_paths._names(some)
        except BpejitError as error:
            return type(error)

    alone = [names([entry]) for entry in entries]
    wrong = [found for found in alone if not isinstance(found, list)]
    assert names(entries) == (wrong[0] if wrong else [name for found in alone for name in found])
    assert names(["x" * 5000]) == names(["a", "x" * 5000])


def test_repository_texts_pass() -> None:
    for path in DATA.iterdir():
        assert recognize_contents(path.read_bytes()[:HEAD_BYTES]) is None


@pytest.mark.parametrize("name", ["hard_bytes.bin", "hard.txt", "english.txt", "code.txt", "multilingual.txt"])
def test_large_corpora_pass(name: str) -> None:
    assert recognize_contents(read_shared(f"corpora/{name}")[:HEAD_BYTES]) is None


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_bytes(TEXT)
    (tmp_path / "text.bz2").write_bytes(bz2.compress(TEXT))
    (tmp_path / "text.gz").write_bytes(gzip.compress(TEXT))
    (tmp_path / "marked").write_bytes(BYTE_ORDER_MARK + TEXT)
    bpejit.train("text", vocab_size=258).save("tokenizer")
    SubwordTextEncoder.build_from_generator([TEXT.decode()], 30).store_to_file("words")
    return tmp_path


COMMANDS = {
    "train": ("train", "--vocab-size", "257", "--out", "t"),
    "encode": ("encode", "--out", "t"),
    "split": ("split",),
    "verify": ("verify", "tokenizer", "--against", "tokenizers"),
    "subword train": ("subword", "train", "--vocab-size", "30", "--out", "t"),
    "subword encode": ("subword", "encode", "--vocab", "words", "--out", "t"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_refuse_binary_input(command: str, work: Path) -> None:
    result = invoke(*COMMANDS[command], "text", "text.bz2")
    assert result.exit_code == 1
    assert "the input `text.bz2` is compressed with bzip2" in result.stderr
    assert "or pass `--input-format text` to use its bytes as they are" in result.stderr
    assert not (work / "t").exists()
    result = invoke(*COMMANDS[command], "text.bz2", "--input-format", "text")
    if command != "subword encode":  # its vocabulary lacks most bytes
        assert result.exit_code == 0, result.stderr


def test_stdin_is_checked(work: Path) -> None:
    from helpers.cli import program

    for data, code in ((bz2.compress(TEXT), 1), (TEXT, 0)):
        result = CliRunner(**SEPARATELY).invoke(program, ["encode", "-", "--out", "t"], input=data)
        assert result.exit_code == code, result.stderr
        assert ("standard input is compressed with bzip2" in result.stderr) == bool(code)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_named_pipe_is_checked_without_losing_bytes(work: Path) -> None:
    os.mkfifo(work / "pipe")
    tokenizer = bpejit.load("tokenizer")

    def encode(data: bytes, **options: bool) -> list[int]:
        def write() -> None:
            with (work / "pipe").open("wb", buffering=0) as file:
                for start in range(0, len(data), 5):
                    file.write(data[start : start + 5])

        thread = threading.Thread(target=write)
        thread.start()
        tokenizer.encode_files("pipe", work / "out", **options)
        thread.join()
        return bpejit.open_tokens(work / "out").ids.tolist()

    assert encode(TEXT) == tokenizer.encode(TEXT)
    (work / "out").unlink()
    (work / "out.json").unlink()
    assert encode(BYTE_ORDER_MARK + TEXT, strip_bom=True) == tokenizer.encode(TEXT)


def test_training_skips_byte_order_marks_with_a_warning(work: Path) -> None:
    (work / "also").write_bytes(BYTE_ORDER_MARK + TEXT)
    with pytest.warns(bpejit.BpejitWarning, match="skipped the UTF-8 byte-order mark of `also`, `marked`") as caught:
        found = bpejit.train(["marked", "also", "text"], vocab_size=265, chunk_bytes=100)
    assert [warning.filename for warning in caught] == [__file__]
    assert found.vocab == bpejit.train(["text"] * 3, vocab_size=265).vocab
    result = invoke("train", "marked", "--vocab-size", "260", "--out", "t")
    assert "note: skipped the UTF-8 byte-order mark of `marked`" in result.stderr
    assert "Warning" not in result.stderr


@pytest.mark.parametrize("engine", ["serial", "threads", "processes"])
def test_encoding_preserves_byte_order_mark_by_default(engine: str, work: Path) -> None:
    tokenizer = bpejit.load("tokenizer")
    report = tokenizer.encode_files(["marked", "text"], "a", engine=engine, chunk_bytes=100)
    assert tokenizer.decode_bytes(bpejit.open_tokens("a").ids) == BYTE_ORDER_MARK + TEXT + TEXT
    assert (report.byte_order_marks, report.bytes) == (("marked",), 2 * len(TEXT) + 3)
    report = tokenizer.encode_files(["marked", "text"], "b", engine=engine, chunk_bytes=100, strip_bom=True)
    assert tokenizer.decode_bytes(bpejit.open_tokens("b").ids) == TEXT + TEXT
    assert (report.byte_order_marks, report.bytes) == (("marked",), 2 * len(TEXT))


def test_commands_report_byte_order_marks(work: Path) -> None:
    result = invoke("encode", "marked", "--out", "a")
    assert "note: the UTF-8 byte-order mark of `marked` was encoded" in result.stderr
    result = invoke("encode", "marked", "--out", "b", "--strip-bom")
    assert "note: the UTF-8 byte-order mark of `marked` was skipped" in result.stderr
    result = invoke("subword", "train", "marked", "--vocab-size", "30", "--out", "c")
    assert "note: the UTF-8 byte-order mark of `marked` was skipped" in result.stderr
    assert invoke("subword", "train", "text", "--vocab-size", "30", "--out", "plain").exit_code == 0
    assert (work / "c").read_bytes() == (work / "plain").read_bytes()
    result = invoke("subword", "encode", "marked", "--vocab", "c", "--out", "d", "--strip-bom")
    assert "note: the UTF-8 byte-order mark of `marked` was skipped" in result.stderr


def test_small_vocabulary_warns_once(work: Path) -> None:
    for train in (bpejit.train, lambda *args, **options: bpejit.train_bpe(*args, special_tokens=[], **options)):
        with pytest.warns(
            bpejit.BpejitWarning, match=r"nothing was left to merge after \d+ merges: .* instead of 9,000"
        ) as caught:
            train("text", vocab_size=9000)
        assert [warning.filename for warning in caught] == [__file__]
        assert str(caught[0].message).endswith("; more text gives more")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = invoke("train", "text", "--vocab-size", "9000", "--min-frequency", "2", "--out", "t")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count("nothing was left to merge") == 1
    assert "a lower `--min-frequency` gives more" in result.stderr.replace(",", "")
