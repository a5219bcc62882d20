"""Tests of inputs at s3:// URLs, with a server in this process."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest
from conftest import data_text, small
from helpers.input_forms import FORMS, json_lines, write_form
from helpers.s3 import Bucket, bucket  # noqa: F401 - a fixture

import bpejit
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.contents import Contents
from bpejit.corpus.fingerprints import identify_input
from bpejit.corpus.sources import find_sources
from bpejit.errors import CorpusError
from bpejit.splitting import Splitter, compile_pattern
from bpejit.storage.remote import RemoteFile

pytestmark = pytest.mark.slow  # requests to the server take a few milliseconds each

TEXT = data_text("prose.txt")[: small(60_000, 4000)]


def test_forms(bucket: Bucket, tmp_path: Path) -> None:  # noqa: F811
    documents = [line for line in TEXT.decode(errors="ignore").replace("<|endoftext|>", "\n").split("\n") if line][:60]
    expected = bpejit.count(iter(documents)).table
    for name in FORMS:
        path, options = write_form(tmp_path, name, documents)
        if path.is_dir():
            url = f"{bucket.url}/{name}"
            for file in sorted(path.rglob("*")):
                if file.is_file():
                    bucket.put(f"{name}/{file.relative_to(path).as_posix()}", file.read_bytes())
        else:
            url = bucket.put(name, path.read_bytes())
        for engine in ("serial", "threads"):
            assert bpejit.count(url, engine=engine, workers=2, chunk_bytes=500, **options).table == expected, (name, engine)


def test_text_is_read_by_ranges(bucket: Bucket, tmp_path: Path) -> None:  # noqa: F811
    url = bucket.put("a/text.txt", TEXT)
    (tmp_path / "text.txt").write_bytes(TEXT)
    lines = bucket.put("a/lines.jsonl", json_lines(TEXT.decode().splitlines()))
    chunker = Chunker(Splitter(compile_pattern("gpt2"), [b"<|endoftext|>"]), chunk_bytes=600)
    for name in (url, lines):
        (source,) = find_sources(name, Contents())
        assert not source.is_stream
        chunks = list(chunker.chunks([source]))
        assert len(chunks) > 1
        assert all(chunk.data is None for chunk in chunks)
    asked: list[int] = []
    read = RemoteFile.read

    def noting(file: RemoteFile, size: int = -1) -> bytes:
        asked.append(size)
        return read(file, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RemoteFile, "read", noting)
        counts = bpejit.count(url, chunk_bytes=1000, engine="serial")
    assert counts.table == bpejit.count(tmp_path / "text.txt").table
    assert max(asked) < 20_000  # a chunk, or a window around a cut
    assert len(asked) > 3


def test_folders_and_globs(bucket: Bucket) -> None:  # noqa: F811
    for key, data in (
        ("in/b.txt", b"two"),
        ("in/a/a.txt", b"one"),
        ("in/.hidden", b"hidden"),
        ("in/c.txt.gz", gzip.compress(b"three")),
        ("out/d.txt", b"four"),
        ("in/empty.txt", b""),
    ):
        bucket.put(key, data)
    assert bpejit.count(f"{bucket.url}/in").table == bpejit.count(iter(["one", "two", "three"])).table
    assert bpejit.count(f"{bucket.url}/in/").table == bpejit.count(iter(["one", "two", "three"])).table
    assert bpejit.count(f"{bucket.url}/*/*.txt").table == bpejit.count(iter(["two", "four"])).table
    found = [source.path for source in find_sources(f"{bucket.url}/in", Contents())]
    assert found == [f"{bucket.url}/in/{name}" for name in ("a/a.txt", "b.txt", "c.txt.gz", "empty.txt")]
    bucket.put("in/d.jsonl.gz", gzip.compress(json_lines(["three"])))
    with pytest.raises(CorpusError, match=r"inputs of different formats.*`s3://[^`]*/in/\*\*/\*.txt` or"):
        find_sources(f"{bucket.url}/in", Contents())
    assert [source.input_format for source in find_sources(f"{bucket.url}/in/*.gz", Contents())] == ["text", "jsonl"]


def test_the_checksum_of_the_storage(bucket: Bucket, tmp_path: Path) -> None:  # noqa: F811
    url = bucket.put("a.txt", b"some text " * 30)
    (source,) = find_sources(url, Contents())
    first = identify_input(source)
    assert first["checksum"].startswith("etag ")
    bucket.put("a.txt", b"other txt " * 30)
    (source,) = find_sources(url, Contents())
    assert identify_input(source) != first
    model = bpejit.Model(tokens={byte: bytes([byte]) for byte in range(256)}, merges=[], unicode="16.0")
    bpejit.Tokenizer.from_model(model).encode_files(url, tmp_path / "a.bin")
    job = json.loads((tmp_path / "a.bin.manifest.json").read_bytes())["job"]
    assert job["inputs"] == [{"path": url, "size": 300, **identify_input(source)}]
    assert bpejit.count(url).inputs[0]["checksum"] == identify_input(source)["checksum"]


def test_errors(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    with pytest.raises(CorpusError, match=r"`s3://no-such-bucket-here/a.txt`: the bucket `no-such-bucket-here` does not exist"):
        bpejit.count("s3://no-such-bucket-here/a.txt")
    with pytest.raises(CorpusError, match=r"the bucket `no-such-bucket-here` does not exist"):
        bpejit.count("s3://no-such-bucket-here/*.txt")
    with pytest.raises(CorpusError, match="there is no such file; expected an existing one"):
        bpejit.count(f"{bucket.url}/missing.txt")
    with pytest.raises(CorpusError, match=r"no file matches the input `s3://.*\*.txt`"):
        bpejit.count(f"{bucket.url}/*.txt")
    url = bucket.put("a.txt", b"text")
    type(bucket.file_system).clear_instance_cache()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(CorpusError, match=r"no credentials were found .*set AWS_ACCESS_KEY_ID"):
        bpejit.count(url)
    type(bucket.file_system).clear_instance_cache()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(CorpusError, match="cannot be reached"):
        bpejit.count(url)
    type(bucket.file_system).clear_instance_cache()


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = pytest.importorskip("fsspec.registry")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    for name in ("s3", "s3a"):
        monkeypatch.delitem(registry._registry, name, raising=False)
    with pytest.raises(CorpusError, match=r"a package that is not installed .*pip install 'bpejit\[s3\]'"):
        bpejit.count("s3://bucket/a.txt")
