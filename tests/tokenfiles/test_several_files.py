"""Tests of several token files as one sequence: lists, globs and manifests of jobs, in all formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cli import invoke
from helpers.token_files import END, byte_tokenizer, write_documents, write_sentences
from hypothesis import given, strategies as st

from bpejit import convert_tokens, open_tokens
from bpejit.errors import ArgumentTypeError, BpejitWarning, TokenFileError
from bpejit.storage.exchange import journal_path
from bpejit.storage.temporary import boot_name, hidden
from bpejit.tokenfiles import format_names, load_format, readers
from bpejit.tokenfiles.opening import find_token_files
from bpejit.tokenfiles.readers import TokenReader

Documents = list[list[int]]


def write_parts(folder: Path, name: str, parts: list[Documents]) -> list[Path]:
    paths = [folder / f"t-{number}{load_format(name).suffix}" for number in range(len(parts))]
    for path, documents in zip(paths, parts, strict=True):
        write_documents(path, documents, name=name)
    return paths


def outcome(call: Callable[[], Any]) -> Any:
    """Return the value of a call, or the type of what it raises."""
    try:
        found = call()
    except Exception as error:
        return type(error)
    return (found.tolist(), found.dtype, found.flags.writeable) if isinstance(found, np.ndarray) else (found, type(found))


def check_equal(joined: TokenReader, single: TokenReader, indices: list[Any], size: int) -> None:
    """Compare several files with a single one that has the same documents."""
    ids = np.array(single.ids)
    assert (len(joined), joined.n_tokens, joined.dtype) == (ids.size, ids.size, single.dtype)
    assert outcome(lambda: joined.ids) == outcome(lambda: single.ids)
    for index in indices:
        assert outcome(lambda i=index: joined[i]) == outcome(lambda i=index: single[i]), index
        if isinstance(index, slice) and index.step != 0:
            assert joined[index].tolist() == ids[index].tolist()
    assert joined.n_documents == single.n_documents
    count = single.n_documents or 0
    for number in range(-count - 2, count + 2):
        assert outcome(lambda k=number: joined.document(k)) == outcome(lambda k=number: single.document(k)), number
    assert [number for block in joined.blocks(size) for number in block.tolist()] == ids.tolist()
    assert [number for block in joined.stored_blocks(size) for number in block.tolist()] == ids.tolist()
    done, ends, found = 0, [], []
    for block, some in joined.document_blocks(size):
        found += block.tolist()
        ends += [] if some is None else (some + done).tolist()
        done += block.size
    assert found == ids.tolist()
    assert ends == np.cumsum([len(single.document(number)) for number in range(count)]).tolist()
    for name in ("bytes_read", "vocab_size", "tokenizer_sha256", "has_hashes"):
        assert getattr(joined, name) == getattr(single, name), name
    joined.verify()


PARTS = st.lists(st.lists(st.lists(st.integers(0, 299), max_size=4), max_size=4), min_size=2, max_size=5)
BOUNDS = st.none() | st.integers(-25, 25)
INDICES = st.lists(
    st.integers(-25, 25) | st.builds(slice, BOUNDS, BOUNDS, st.none() | st.integers(-5, 5)), min_size=5, max_size=15
)


@pytest.mark.parametrize("name", format_names())
@given(parts=PARTS, indices=INDICES, size=st.integers(1, 9), open_files=st.sampled_from([1, 2, 64]))
def test_several_files_are_the_concatenation(
    tmp_path_factory: pytest.TempPathFactory, name: str, parts: list[Documents], indices: list[Any], size: int, open_files: int
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    single = folder / f"single{load_format(name).suffix}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        patch.setattr("os.fdatasync", lambda _: None)
        paths = write_parts(folder, name, parts)
        write_documents(single, [document for part in parts for document in part], name=name)
        patch.setattr(readers, "_MOST_OPEN", open_files)
        joined = open_tokens(paths)
        assert joined.ids_sha256 is None
        check_equal(joined, open_tokens(single), indices, size)
        check_equal(open_tokens(f"{folder}/t-*"), open_tokens(single), indices, size)


@pytest.mark.parametrize("name", format_names())
def test_files_without_descriptions(tmp_path: Path, name: str) -> None:
    parts: list[Documents] = [[[1, 2], [], [3]], [], [[4]], [[5, 6, 7]]]
    documents = [document for part in parts for document in part]
    paths = write_parts(tmp_path, name, parts)
    write_documents(tmp_path / "single", documents, name=name)
    for path in [*paths, tmp_path / "single"]:
        Path(load_format(name).files(path)[-1]).unlink()
    known: dict[str, Any] = {"dtype": None if load_format(name).states_dtype else open_tokens(paths[0], dtype="uint16").dtype}
    known |= {"format": name}
    joined, single = open_tokens(paths, **known), open_tokens(tmp_path / "single", **known)
    assert joined[:].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert joined.n_documents == single.n_documents
    assert [joined.document(number).tolist() for number in range(joined.n_documents or 0)] == documents
    assert joined.tokenizer_sha256 is joined.vocab_size is joined.bytes_read is None
    assert not joined.has_hashes
    with pytest.raises(TokenFileError, match=r"t-0.* cannot be verified"):
        joined.verify()


def test_files_of_which_one_has_no_borders(tmp_path: Path) -> None:
    write_documents(tmp_path / "a", [[1, 2], [3]])
    write_documents(tmp_path / "b", [[4], [5]], document_index=False)
    joined = open_tokens([tmp_path / "a", tmp_path / "b"])
    assert joined[1:4].tolist() == [2, 3, 4]
    assert joined.n_documents is None
    with pytest.raises(TokenFileError, match=r"b` does not contain the borders of documents"):
        joined.document(0)
    assert [(ids.tolist(), ends) for ids, ends in joined.document_blocks()] == [([1, 2, 3], None), ([4, 5], None)]
    joined.verify()


def test_slices_within_a_file_are_mapped(tmp_path: Path) -> None:
    joined = open_tokens(write_parts(tmp_path, "bin", [[[1, 2, 3]], [[4, 5]]]))
    assert isinstance(joined[1:3], np.memmap)
    assert isinstance(joined[3:], np.memmap)
    assert not isinstance(joined[2:4], np.memmap)
    with pytest.raises(TypeError):
        joined["0"]  # type: ignore[call-overload]


def test_verify_names_the_damaged_file_and_tells_progress(tmp_path: Path) -> None:
    paths = write_parts(tmp_path, "bin", [[[1, 2, 3]], [[4, 5]], [[6]]])
    told: list[tuple[str, int, int | None, str]] = []
    open_tokens(paths).verify(progress=lambda *event: told.append(event))
    assert [done for _, done, _, _ in told] == [0, 3, 3, 5, 5, 6]
    assert {(stage, total, unit) for stage, _, total, unit in told} == {("verify", 6, "tokens")}
    paths[1].write_bytes(np.array([4, 7], "<u2").tobytes())
    with pytest.raises(TokenFileError, match=r"t-1.bin` does not match"):
        open_tokens(paths).verify()


def test_a_file_that_changes_while_it_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "_MOST_OPEN", 1)
    paths = write_parts(tmp_path, "bin", [[[1, 2, 3]], [[4, 5]]])
    joined = open_tokens(paths)
    assert joined[2:4].tolist() == [3, 4]
    write_documents(paths[0], [[1, 2]], overwrite=True)
    with pytest.raises(TokenFileError, match=r"t-0.bin`: n_tokens is 2; expected 3, .* do not change files that are open"):
        joined[:4]


# ---- what is named


def test_order_of_a_glob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["t-9", "t-10", "t-100", "t-09b", "t", "u-1", "t-"]
    for number, name in enumerate(names):
        write_documents(f"{name}.npy", [[number]], name="npy")
    assert [file.path for file in find_token_files("t*.npy")] == [
        *("t-9.npy", "t-09b.npy", "t-10.npy", "t-100.npy", "t-.npy", "t.npy"),
    ]
    assert [file.path for file in find_token_files(["u*", "t-1??.npy", "t-9.npy"])] == ["u-1.npy", "t-100.npy", "t-9.npy"]
    Path("folder-1.npy").mkdir()
    write_documents("folder-1.npy/x.npy", [[7]], name="npy")
    assert open_tokens("**/[fx]*.npy").ids.tolist() == [7]
    write_documents("a[1].npy", [[8]], name="npy")
    assert open_tokens("a[1].npy").ids.tolist() == [8], "a file with this name"
    write_documents("p[1]", [[9]], name="megatron")
    assert open_tokens("p[1]").ids.tolist() == [9], "the prefix of files"


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ("x*.bin", r"no file matches `x\*.bin`; expected at least one token file: check the pattern"),
        ([], r"\[\] names no token file; expected at least one"),
        (["a.bin", "a.bin"], "`a.bin` is named twice; expected each file once: leave it out"),
        (["a.bin", "link.bin"], "`link.bin` is named twice"),
        (["?.bin", "b.bin"], "`b.bin` is named twice"),
        (["m", "m.bin"], "`m.bin` is named twice"),
        (["m.idx", "m"], "`m` is named twice"),
        (["a.bin", "missing.bin"], "cannot read `missing.bin`: there is no such file; expected a token file"),
        (["a.bin", "a.npy"], r"`a.npy`: format is npy; expected bin, as in `a.bin`: convert it"),
        (["a.bin", "wide.bin"], "`wide.bin`: dtype is uint32; expected uint16, as in `a.bin`: convert it"),
        (["a.bin", "other.bin"], f"`other.bin`: tokenizer_sha256 is {'b' * 64}; expected {'a' * 64}, as in `a.bin`"),
        (["a.bin", "unknown.bin"], "`unknown.bin`: tokenizer_sha256 is None; expected aaa"),
        (["unknown.bin", "a.bin"], "`a.bin`: tokenizer_sha256 is aaa.*; expected None"),
        (["a.bin", "large.bin"], "`large.bin`: vocab_size is 2000; expected 1000"),
        (["a.bin", "bare.bin"], "the dtype of `bare.bin` is not known: there is no `bare.bin.json`"),
    ],
)
def test_refused_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paths: Any, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        write_documents(f"{name}.bin", [[1], [2]])
    Path("link.bin").symlink_to("a.bin")
    write_documents("m", [[1]], name="megatron")
    write_documents("a.npy", [[1]], name="npy")
    write_documents("wide.bin", [[1]], dtype="uint32")
    write_documents("other.bin", [[1]], tokenizer_sha256="b" * 64)
    write_documents("unknown.bin", [[1]], tokenizer_sha256=None)
    write_documents("large.bin", [[1]], vocab_size=2000)
    Path("bare.bin").write_bytes(bytes(4))
    with pytest.raises(TokenFileError, match=message):
        open_tokens(paths)


def test_arguments_for_all_files(tmp_path: Path) -> None:
    paths = write_parts(tmp_path, "bin", [[[1]], [[2]]])
    assert open_tokens(tuple(paths), tokenizer_sha256="a" * 64, vocab_size=1000, dtype="uint16").ids.tolist() == [1, 2]
    for wrong in ({"tokenizer_sha256": "b" * 64}, {"vocab_size": 7}, {"dtype": "uint32"}, {"format": "npy"}):
        with pytest.raises(TokenFileError):
            open_tokens(paths, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="path is 5, an int; expected a path"):
        open_tokens([paths[0], 5])  # type: ignore[list-item]
    with pytest.raises(ArgumentTypeError, match="expected a path"):
        open_tokens(iter(paths))  # type: ignore[arg-type]
    numbers = [tmp_path / f"n-{number}.npy" for number in range(2)]
    for path, number in zip(numbers, (3, 5), strict=True):
        np.save(path, np.array([number], np.uint16))
        convert_tokens(path, f"{path}.bin", format="bin")
    assert open_tokens(numbers).ids.tolist() == [3, 5]
    assert open_tokens([f"{path}.bin" for path in numbers]).vocab_size == 6, "the tokenizer is not known"


# ---- manifests


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a corpus, and a tokenizer of bytes."""
    folder = tmp_path_factory.mktemp("jobs")
    write_sentences(folder / "corpus.jsonl")
    lines = (folder / "corpus.jsonl").read_text().splitlines(keepends=True)
    (folder / "inputs" / "b").mkdir(parents=True)
    for number, name in enumerate(("a.jsonl", "b/c.jsonl", "b/a.jsonl")):
        (folder / "inputs" / name).write_text("".join(lines[number::3]))
    byte_tokenizer().save(folder / "tokenizer")
    return folder


def encode(folder: Path, out: Path, inputs: str = "corpus.jsonl", **options: Any) -> Any:
    return byte_tokenizer().encode_files(folder / inputs, out, append_token=END, engine="serial", **options)


@pytest.mark.parametrize("name", format_names())
def test_manifest_of_shards(jobs: Path, tmp_path: Path, name: str) -> None:
    encode(jobs, tmp_path / "one", format=name, document_index=True)
    out = tmp_path / "shards"
    report = encode(jobs, out, format=name, document_index=True, shard_tokens=700)
    assert len(report.paths) > 3
    joined, one = open_tokens(report.manifest), open_tokens(tmp_path / "one")
    assert [path for path, _ in joined.files] == [Path(load_format(name).files(path)[0]) for path in report.paths]
    joined.verify()
    assert np.array_equal(joined.ids, one.ids)
    assert joined.n_documents == one.n_documents
    assert joined.document(17).tolist() == one.document(17).tolist()
    assert (joined.vocab_size, joined.tokenizer_sha256) == (one.vocab_size, one.tokenizer_sha256)


def test_manifests_leave_out_validation_sets(jobs: Path, tmp_path: Path) -> None:
    plain = open_tokens(encode(jobs, tmp_path / "plain.bin", document_index=True).manifest)
    report = encode(jobs, tmp_path / "t.bin", document_index=True, shard_tokens=700, val_fraction=0.3, seed=1)
    joined = open_tokens(report.manifest)
    assert not any("-val" in path.name for path, _ in joined.files)
    aside = open_tokens(f"{tmp_path}/t-val-*.bin")
    assert len(joined) + len(aside) == len(plain)
    assert (joined.n_documents or 0) + (aside.n_documents or 0) == plain.n_documents


def test_manifest_of_a_folder(jobs: Path, tmp_path: Path) -> None:
    report = byte_tokenizer().encode_files(jobs / "inputs", out_dir=tmp_path / "out", engine="serial")
    joined = open_tokens(tmp_path / "out" / "manifest.json")
    assert joined.ids.tolist() == [number for path in report.paths for number in open_tokens(path).ids.tolist()]
    both = open_tokens([tmp_path / "out" / "manifest.json", encode(jobs, tmp_path / "t.bin").manifest])
    assert len(both) == len(joined) + len(open_tokens(tmp_path / "t.bin"))


def test_manifest_of_rows_and_exact_shards(jobs: Path, tmp_path: Path) -> None:
    packed = encode(jobs, tmp_path / "p.parquet", format="parquet", shard_tokens=700, pack=64)
    joined = open_tokens(packed.manifest)
    joined.verify()
    assert {joined.document(number).size for number in range(joined.n_documents or 0)} == {64}
    assert {ids.size for ids, _ in [*joined.document_blocks()]} != {0}
    exact = encode(jobs, tmp_path / "e.bin", shard_tokens=700, shard_exact=True, document_index=True)
    joined = open_tokens(exact.manifest)
    assert [part.size for part in np.split(joined.ids, range(700, len(joined), 700))][:-1] == [700] * (len(joined) // 700)
    assert (joined.n_documents or 0) > exact.documents, "a document that is divided counts in both files"


def damage(manifest: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    fields = json.loads(manifest.read_text())
    change(fields)
    manifest.write_text(json.dumps(fields))


@pytest.fixture
def shards(jobs: Path, tmp_path: Path) -> Path:
    return Path(encode(jobs, tmp_path / "t.bin", document_index=True, shard_tokens=700).manifest)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, _: m.write_text("{"), "t.bin.manifest.json` is broken at line 1"),
        (
            lambda m, _: m.write_text("[1]"),
            "does not list token files: .* missing or wrong; expected the manifest of a finished",
        ),
        (
            lambda m, _: m.with_name("t-00001.bin").unlink(),
            r"there is no `.*t-00001.bin`, which `.*manifest.json` lists; expected",
        ),
        (lambda _, c: c(lambda f: f.pop("outputs")), "does not list token files: 'outputs' is missing"),
        (lambda _, c: c(lambda f: f["outputs"][1].pop("tokens")), "does not list token files: 'tokens' is missing"),
        (lambda _, c: c(lambda f: f["outputs"].append(f["outputs"][0])), "t-00000.bin` is named twice"),
        (lambda _, c: c(lambda f: f["outputs"].clear()), "names no token file"),
        (
            lambda _, c: c(lambda f: f["outputs"][2].update(tokens=3)),
            r"t-00002.bin`: n_tokens is \d+; expected 3, as in `.*json`",
        ),
        (lambda _, c: c(lambda f: f["outputs"][2].update(documents=3)), r"t-00002.bin`: n_documents is \d+; expected 3"),
        (lambda _, c: c(lambda f: f["job"].update(dtype="uint32")), "t-00000.bin`: dtype is uint16; expected uint32"),
        (lambda _, c: c(lambda f: f["job"].update(tokenizer_sha256="c")), "tokenizer_sha256 is .*; expected c, as in"),
        (lambda _, c: c(lambda f: f["job"].update(format="npy")), "file_format is bin; expected npy for"),
    ],
)
def test_damaged_manifests(shards: Path, change: Any, message: str) -> None:
    change(shards, lambda edit: damage(shards, edit))
    with pytest.raises(TokenFileError, match=message):
        open_tokens(shards)


def test_manifest_that_an_interrupted_run_set_aside(shards: Path) -> None:
    entry = [hidden(shards, kind) for kind in ("new", "old")]
    entry[0].write_bytes(b"{}")
    shards.rename(entry[1])
    fields = {
        "format": "bpejit journal",
        "format_version": 1,
        "boot": boot_name(),
        "entries": [[shards.name, *map(str, entry)]],
    }
    journal_path(shards).write_text(json.dumps(fields))
    open_tokens(shards).verify()
    assert len(find_token_files(shards)) > 1
    assert not entry[1].exists()


def test_jobs_that_have_not_finished(jobs: Path, tmp_path: Path) -> None:
    encode(jobs, tmp_path / "t.bin", shard=(0, 2))
    for manifest in (tmp_path / "t.bin.manifest.json", tmp_path / ".t.bin.bpejit-job" / "manifest.json"):
        with pytest.raises(
            TokenFileError, match=r"has not finished; .* resume it|the manifest of a finished encoding job: resume"
        ):
            open_tokens(manifest)
    byte_tokenizer().encode_files(jobs / "inputs", out_dir=tmp_path / "out", shard=(0, 2), engine="serial")
    with pytest.raises(
        TokenFileError, match=r"the job of `.*out` has not finished; expected a finished job: resume it, or join"
    ):
        open_tokens(tmp_path / "out" / "manifest.json")
    with pytest.raises(TokenFileError, match=r"cannot read .*: there is no such file; expected a manifest of a job"):
        open_tokens(tmp_path / "missing.manifest.json")
    encode(jobs, tmp_path / "t.bin", shard=(1, 2))
    assert len(open_tokens(tmp_path / "t.bin.manifest.json")) == len(open_tokens(tmp_path / "t.bin"))


# ---- functions and commands


def test_functions_and_commands(jobs: Path, shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shards.parent)
    encode(jobs, Path("one.bin"), document_index=True)
    tokenizer = byte_tokenizer()
    tokenizer.decode_file("one.bin", "one.txt")
    text = Path("one.txt").read_bytes()
    paths = sorted(Path().glob("t-*.bin"))
    count, ids = len(open_tokens("one.bin")), open_tokens("one.bin").ids
    ways: dict[str, Any] = {"manifest": "t.bin.manifest.json", "glob": "t-*.bin", "list": paths}
    for name, way in ways.items():
        assert tokenizer.decode_file(way, f"{name}.txt") == len(text)
        assert Path(f"{name}.txt").read_bytes() == text
        done = convert_tokens(way, f"{name}.npy")
        assert (done.tokens, done.documents) == (count, open_tokens("one.bin").n_documents)
        assert np.array_equal(np.load(f"{name}.npy"), ids)
        found = open_tokens(f"{name}.npy")
        assert (found.bytes_read, found.tokenizer_sha256) == (open_tokens(way).bytes_read, tokenizer.sha256)
        given = [str(path) for path in (way if isinstance(way, list) else [way])]
        shown = f"`{given[0]}`" + (f" and {len(paths) - 1} more" if name == "list" else "")
        options = ["--tokenizer", f"{jobs}/tokenizer"]
        assert invoke("decode", *given, *options, "--out", f"{name}.cli").stderr.startswith(f"decoded {shown} into ")
        assert Path(f"{name}.cli").read_bytes() == text
        fields = json.loads(invoke("tokens", "info", *given, "--json").stdout)
        assert fields["path"] == (given if name == "list" else given[0])
        assert (fields["files"], fields["tokens"], fields["ids_sha256"]) == (len(paths), count, None)
        assert fields["file_bytes"] == sum(path.stat().st_size for path in paths)
        assert fields["first_ids"] == ids[:10].tolist()
        assert f" bytes in {len(paths)} files\n" in invoke("tokens", "info", *given).stdout
        assert invoke("tokens", "verify", *given).stdout == f"verified {shown}: {count:,} tokens, {len(paths)} files\n"
        corpus = ["--corpus", f"{jobs}/corpus.jsonl"]
        assert f"{shown} decodes to the corpus" in invoke("tokens", "verify", *given, *options, *corpus).stdout
        assert invoke("tokens", "head", *given, "-n", "1M").stdout.split() == [str(number) for number in ids]
        lines = invoke("tokens", "head", *given, "--first-documents", "1M").stdout.splitlines()
        assert [int(number) for line in lines for number in line.split()] == ids.tolist()
        converted = invoke("tokens", "convert", *given, "--out", f"{name}.ds").stdout
        assert converted.startswith(f"converted {shown}: {count:,} tokens, ")
        assert np.array_equal(open_tokens(f"{name}.ds").ids, ids)
    for out in ("t-00001.bin", "t.bin.manifest.json", "t-00001.bin.docs.npy"):
        refused = invoke("decode", "t.bin.manifest.json", *options, "--out", out, "--overwrite")
        assert (refused.exit_code, "is one of the inputs" in refused.stderr or "input" in refused.stderr) == (1, True)
    assert invoke("tokens", "info").exit_code == 2
    damaged = bytearray(paths[2].read_bytes())
    damaged[0] ^= 1
    paths[2].write_bytes(damaged)
    for command in (["tokens", "verify", "t-*.bin"], ["tokens", "convert", "t-*.bin", "--out", "d.npy"]):
        refused = invoke(*command)
        assert (refused.exit_code, "`t-00002.bin` does not match" in refused.stderr) == (1, True), refused.stderr
    assert not Path("d.npy").exists()


def test_columns_of_several_files(tmp_path: Path) -> None:
    """Other columns are not converted, and named if the new file could have them."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for number, name in enumerate(("name", "name", "url")):
        parquet.write_table(arrow.table({"input_ids": [[number], [2, 3]], name: ["a", "b"]}), tmp_path / f"t-{number}.parquet")
    with pytest.warns(BpejitWarning, match=r"the columns name, url of `.*` are not converted; .* `keep_columns=`"):
        convert_tokens(f"{tmp_path}/t-*.parquet", tmp_path / "all.parquet")
    assert parquet.read_table(tmp_path / "all.parquet").to_pydict() == {"input_ids": [[0], [2, 3], [1], [2, 3], [2], [2, 3]]}
    convert_tokens(f"{tmp_path}/t-*.parquet", tmp_path / "all.npy")
    convert_tokens(f"{tmp_path}/t-*.parquet", tmp_path / "packed.parquet", pack=2)
    shown = invoke("tokens", "convert", str(tmp_path / "t-2.parquet"), "--out", str(tmp_path / "t.arrow"))
    assert (shown.exit_code, "note: the columns url of" in shown.stderr) == (0, True)
