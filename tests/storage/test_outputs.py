"""Tests of outputs that are refused (inputs, existing files, folders), and of standard output."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from helpers.cli import COMMAND, ENVIRONMENT, copy_files, invoke, run, snapshot

import bpejit
from bpejit.errors import OutputError, TokenFileError
from bpejit.storage.outputs import InputFiles, check_outputs
from bpejit.t2t.subword_files import decode_file as decode_subwords, encode_file as encode_subwords
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder

TEXT = b"low lower lowest\nnew newer newest\n" * 20


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with a corpus, a tokenizer, token files and subword vocabularies."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "corpus.txt").write_bytes(TEXT)
    tokenizer = bpejit.train(folder / "corpus.txt", vocab_size=270, engine="serial")
    tokenizer.save(folder / "tokenizer")
    tokenizer.encode_files(folder / "corpus.txt", folder / "tokens.bin", engine="serial")
    encoder = SubwordTextEncoder.build_from_generator([TEXT.decode()], 60)
    encoder.store_to_file(folder / "vocab.subwords")
    encode_subwords(encoder, folder / "corpus.txt", folder / "ids.bin", append_eos=True)
    return folder


@pytest.fixture
def work(made, tmp_path, monkeypatch):
    """Return the working directory, with copies of the files of `made`."""
    copy_files(made, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refuses(work, *arguments):
    """Run a command that must fail without changing a file; return its message."""
    before = snapshot(work)
    result = invoke(*arguments)
    assert snapshot(work) == before
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    *notes, message = result.stderr.splitlines()
    assert all(note.startswith("note: ") for note in notes)
    assert message.startswith("bpejit: error: ")
    return message


# ---- an output that is an input


@pytest.mark.parametrize(
    "arguments",
    [
        ["encode", "corpus.txt", "--out", "OUT"],
        ["subword", "encode", "corpus.txt", "--vocab", "vocab.subwords", "--out", "OUT"],
        ["subword", "train", "corpus.txt", "--vocab-size", "60", "--out", "OUT"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
@pytest.mark.parametrize("kind", ["same", "other spelling", "symlink", "hard link", "glob"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_corpus_is_not_replaced(work, arguments, kind, overwrite):
    out = {"same": "corpus.txt", "other spelling": f"../{work.name}/corpus.txt", "glob": "corpus.txt"}.get(kind, "link")
    if kind == "symlink":
        (work / "link").symlink_to("corpus.txt")
    if kind == "hard link":
        os.link("corpus.txt", "link")
    arguments = [
        out if part == "OUT" else "corp*.txt" if part == "corpus.txt" and kind == "glob" else part for part in arguments
    ]
    message = refuses(work, *arguments, *(["--overwrite"] if overwrite else []))
    assert f"cannot write `{out}`: it is one of the inputs" in message
    assert "--overwrite" not in message


@pytest.mark.parametrize(
    "arguments",
    [
        ["decode", "tokens.bin", "--out", "tokens.bin"],
        ["decode", "tokens.bin", "--out", "tokens.bin.json"],
        ["decode", "tokens.bin", "--out", "tokenizer/tokenizer.json"],
        ["encode", "corpus.txt", "--out", "tokenizer/bpejit.json"],
        ["subword", "decode", "ids.bin", "--vocab", "vocab.subwords", "--out", "ids.bin"],
        ["subword", "decode", "ids.bin", "--vocab", "vocab.subwords", "--out", "vocab.subwords"],
        ["subword", "encode", "corpus.txt", "--vocab", "vocab.subwords", "--out", "vocab.subwords"],
        ["export", "tokenizer", "--to", "hf", "--out", "tokenizer"],
        ["train", "tokenizer/tokenizer.json", "--vocab-size", "300", "--out", "tokenizer"],
        ["train", "corpus.txt", "--vocab-size", "300", "--chat-template", "tokenizer/bpejit.json", "--out", "tokenizer"],
    ],
    ids=" ".join,
)
def test_other_inputs_are_not_replaced(work, arguments):
    assert "it is one of the inputs" in refuses(work, *arguments, "--overwrite")


def test_description_must_not_replace_an_input(work):
    (work / "data.json").write_bytes(TEXT)
    assert "cannot write `data.json`: it is one of the inputs" in refuses(
        work, "encode", "data.json", "--out", "data", "--overwrite"
    )


def test_stdin_and_stdout_redirected_to_one_file(work):
    before = snapshot(work)
    with (work / "corpus.txt").open("rb") as corpus:
        result = run("encode", "-", "--out", "corpus.txt", "--overwrite", cwd=work, stdin=corpus)
    assert b"is one of the inputs (it is the same file as standard input)" in result.stderr
    with (work / "corpus.txt").open("ab") as corpus:
        result = run("encode", "corpus.txt", "--out", "-", cwd=work, stdout=corpus)
    assert b"cannot write standard output: it is one of the inputs (it is the same file as `corpus.txt`)" in result.stderr
    assert snapshot(work) == before


def test_python_functions_refuse_inputs(work):
    tokenizer = bpejit.load("tokenizer")
    encoder = SubwordTextEncoder("vocab.subwords")
    before = snapshot(work)
    for attempt in (
        lambda: tokenizer.encode_files(["corpus.txt"], work / "corpus.txt", overwrite=True),
        lambda: tokenizer.decode_file("tokens.bin", "tokens.bin", overwrite=True),
        lambda: encode_subwords(encoder, "corpus.txt", "corpus.txt", overwrite=True),
        lambda: decode_subwords(encoder, "ids.bin", work / "ids.bin", overwrite=True),
    ):
        with pytest.raises(OutputError, match="it is one of the inputs"):
            attempt()
    assert snapshot(work) == before


# ---- an output that exists


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["train", "corpus.txt", "--vocab-size", "265"], "tokenizer"),
        (["train", "missing.txt", "--vocab-size", "265"], "tokenizer"),
        (["encode", "corpus.txt", "--out", "tokens.bin"], "tokens.bin"),
        (["encode", "corpus.txt", "--out", "ids.bin", "--tokenizer", "missing"], "ids.bin"),
        (["encode", "corpus.txt", "--out", "only"], "only.json"),
        (["decode", "tokens.bin", "--out", "old"], "old"),
        (["export", "tokenizer", "--to", "tiktoken", "--out", "old.tiktoken"], "old_encoding.py"),
        (["export", "tokenizer", "--to", "gpt2", "--out", "folder"], "folder"),
        (["export", "tokenizer", "--to", "hf", "--out", "folder"], "folder"),
        (["subword", "train", "corpus.txt", "--vocab-size", "60", "--out", "old"], "old"),
        (["subword", "encode", "corpus.txt", "--vocab", "vocab.subwords", "--out", "tokens.bin"], "tokens.bin"),
        (["subword", "decode", "ids.bin", "--vocab", "vocab.subwords", "--out", "old"], "old"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_existing_output_is_refused(work, arguments, named):
    (work / "folder").mkdir()
    for name in ("old", "old_encoding.py", "only.json", "folder/vocab.json", "folder/tokenizer_config.json"):
        (work / name).write_bytes(b"mine")
    message = refuses(work, *arguments)
    assert f"`{named}`" in message
    assert "already exists" in message
    assert "replace" in message
    assert "`--overwrite`" in message
    if "missing" not in str(arguments):
        result = invoke(*arguments, "--overwrite")
        assert result.exit_code == 0, result.stderr
        assert refuses(work, *arguments)


def test_python_functions_refuse_existing_outputs(work):
    tokenizer = bpejit.load("tokenizer")
    encoder = SubwordTextEncoder("vocab.subwords")
    (work / "old").write_bytes(b"mine")
    tokenizer.save("mine.tiktoken", format="tiktoken")
    tokenizer.save("pair", format="gpt2")
    attempts = [
        lambda **options: tokenizer.save("tokenizer", **options),
        lambda **options: tokenizer.save("tokenizer", format="hf", **options),
        lambda **options: tokenizer.save("mine.tiktoken", format="tiktoken", **options),
        lambda **options: tokenizer.save("pair", format="gpt2", **options),
        lambda **options: tokenizer.encode_files("corpus.txt", "tokens.bin", **options),
        lambda **options: tokenizer.decode_file("tokens.bin", "old", **options),
        lambda overwrite=False: encoder.store_to_file("vocab.subwords", overwrite=overwrite),
        lambda **options: encode_subwords(encoder, "corpus.txt", "ids.bin", **options),
        lambda **options: decode_subwords(encoder, "ids.bin", "old", **options),
    ]
    before = snapshot(work)
    for attempt in attempts:
        with pytest.raises(OutputError, match=r"already exists.*`overwrite=True`"):
            attempt()
    assert snapshot(work) == before
    for attempt in attempts:
        attempt(overwrite=True)


def test_unrelated_files_are_no_obstacle(work):
    (work / "folder").mkdir()
    (work / "folder" / "notes.txt").write_bytes(b"mine")
    bpejit.load("tokenizer").save("folder")
    assert (work / "folder" / "notes.txt").read_bytes() == b"mine"


def test_user_file_named_like_a_private_file_is_preserved(work):
    """`model.json` is removed only if it belongs to an older tokenizer."""
    (work / "folder").mkdir()
    (work / "folder" / "model.json").write_bytes(b"mine")
    bpejit.load("tokenizer").save("folder", overwrite=True)
    assert (work / "folder" / "model.json").read_bytes() == b"mine"


def test_save_pretrained_replaces_files(work):
    hf = bpejit.load("tokenizer").as_hf()
    assert hf.save_pretrained("tokenizer") == hf.save_pretrained("tokenizer")


# ---- standard output, devices and folders


def test_ids_to_stdout(work):
    expected = (work / "tokens.bin").read_bytes()
    for name in ("-", "/dev/stdout"):
        result = run("encode", "corpus.txt", "--out", name, cwd=work)
        assert result.returncode == 0, result.stderr
        assert result.stdout == expected
        assert b"encoded" in result.stderr
    with (work / "out.bin").open("wb") as out:
        assert run("encode", "corpus.txt", "--out", "/dev/stdout", cwd=work, stdout=out).returncode == 0
    assert (work / "out.bin").read_bytes() == expected
    assert not (work / "-.json").exists()
    assert invoke("encode", "corpus.txt", "--out", "/dev/null").exit_code == 0


@pytest.mark.slow
def test_text_to_stdout(work):
    for name in ("-", "/dev/stdout"):
        result = run("decode", "tokens.bin", "--out", name, cwd=work)
        assert (result.returncode, result.stdout) == (0, TEXT), result.stderr
    result = run("subword", "decode", "ids.bin", "--vocab", "vocab.subwords", "--out", "-", cwd=work)
    assert (result.returncode, result.stdout) == (0, TEXT), result.stderr
    result = run("subword", "train", "corpus.txt", "--vocab-size", 60, "--out", "-", cwd=work)
    assert result.stdout.startswith(b"'<pad>_'\n"), result.stderr
    assert not (work / "-").exists()


def test_ids_from_stdin(work):
    command = f"{COMMAND[0]} -m {COMMAND[2]}"
    line = f"{command} encode corpus.txt --out - --dtype uint32 | {command} decode - --dtype uint32"
    result = subprocess.run(line, shell=True, cwd=work, env=ENVIRONMENT, capture_output=True, check=False)
    assert result.stdout == TEXT, result.stderr
    ids = (work / "ids.bin").read_bytes()
    result = run("subword", "decode", "-", "--vocab", "vocab.subwords", "--dtype", "uint16", cwd=work, input=ids)
    assert result.stdout == TEXT, result.stderr
    assert "the dtype of the ids on standard input is not known" in refuses(work, "decode", "-")
    result = run("decode", "-", "--dtype", "uint32", cwd=work, input=b"\x41\x00\x00\x00\x42\x00")
    assert result.returncode == 1
    assert b"standard input has 6 bytes, which is not a multiple of 4, the size of uint32" in result.stderr


@pytest.mark.parametrize("form", ["hf", "gpt2", "tiktoken", None])
@pytest.mark.parametrize("out", ["-", "/dev/stdout", "/dev/null"])
def test_several_files_cannot_go_to_stdout(work, form, out):
    command = ["export", "tokenizer", "--to", form] if form else ["train", "corpus.txt", "--vocab-size", "265"]
    assert f"cannot write to `{out}`: the result is several files" in refuses(work, *command, "--out", out)


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [
        ["encode", "corpus.txt"],
        ["decode", "tokens.bin"],
        ["subword", "encode", "corpus.txt", "--vocab", "vocab.subwords"],
        ["subword", "train", "corpus.txt", "--vocab-size", "60"],
    ],
    ids=" ".join,
)
def test_folder_is_not_a_file(work, arguments, existing):
    if existing:
        (work / "folder").mkdir()
        assert "`folder`: it is a folder" in refuses(work, *arguments, "--out", "folder", "--overwrite")
    message = refuses(work, *arguments, "--out", "folder/")
    assert "cannot write `folder/`" in message
    assert "folder" in message
    assert (work / "folder").exists() == existing


def test_streams_in_python(work):
    tokenizer = bpejit.load("tokenizer")
    with (work / "raw.bin").open("wb") as stream:
        report = tokenizer.encode_files("corpus.txt", stream, dtype="uint32")
    assert report.path is None
    assert report.tokens == 4 * len(np.fromfile("raw.bin", dtype="<u4")) // 4
    assert np.array_equal(np.fromfile("raw.bin", dtype="<u4"), bpejit.open_tokens("tokens.bin").ids)
    assert not (work / "raw.bin.json").exists()


def test_check_outputs_ignores_missing_and_odd_paths(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nothing")
    check_outputs([tmp_path / "new", tmp_path / "dangling", "-", "/dev/null"], inputs=[tmp_path / "missing", "-"])


# ---- descriptions of token files


def change(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_other_contents_of_equal_length_are_detected(work):
    assert "verified" in invoke("info", "tokens.bin", "--verify").stdout
    bpejit.open_tokens("tokens.bin").verify()
    data = bytearray((work / "tokens.bin").read_bytes())
    data[10:12] = data[12:14] if data[10:12] != data[12:14] else b"\x41\x00"
    (work / "tokens.bin").write_bytes(data)
    assert invoke("info", "tokens.bin").exit_code == 0
    assert "does not match `tokens.bin.json`: the SHA-256" in refuses(work, "info", "tokens.bin", "--verify")
    with pytest.raises(TokenFileError, match=r"does not match `.*`: the SHA-256"):
        bpejit.open_tokens("tokens.bin").verify()


def test_description_without_hash_is_read(work):
    fields = json.loads((work / "tokens.bin.json").read_text())
    del fields["ids_sha256"]
    (work / "tokens.bin.json").write_text(json.dumps(fields))
    assert invoke("decode", "tokens.bin").stdout.encode() == TEXT
    assert invoke("info", "tokens.bin").exit_code == 0
    assert "expected `ids_sha256`" in refuses(work, "info", "tokens.bin", "--verify")
    (work / "tokens.bin.json").unlink()
    assert "`tokens.bin.json` does not exist" in refuses(work, "info", "tokens.bin", "--verify", "--dtype", "uint16")
    assert "`tokenizer` is a tokenizer; expected a token file" in refuses(work, "info", "tokenizer", "--verify")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"byte_order": "big"}, "byte_order is 'big'; expected 'little'"),
        ({"byte_order": None}, "byte_order is None"),
        ({"vocab_size": 5}, "vocab_size is 5; expected 270 for `tokens.bin`: use the tokenizer"),
        ({"vocab_size": 1 << 20}, "vocab_size is 1048576; expected"),
        ({"ids_sha256": "abc"}, "ids_sha256 is 'abc'; expected a SHA-256"),
    ],
)
def test_every_field_of_a_description_is_checked(work, fields, message):
    change(work / "tokens.bin.json", **fields)
    assert message in refuses(work, "decode", "tokens.bin")


def test_vocabulary_size_is_checked_without_tokenizer(work):
    change(work / "tokens.bin.json", vocab_size=1 << 17)
    assert "expected at most 65536 for uint16" in refuses(work, "info", "tokens.bin")
    change(work / "tokens.bin.json", vocab_size=0)
    assert "expected at least 1" in refuses(work, "info", "tokens.bin")
    change(work / "tokens.bin.json", vocab_size=50)
    assert "contains the id" in refuses(work, "info", "tokens.bin", "--verify")


def test_large_blocks_are_hashed_in_parallel(tmp_path: Path) -> None:
    from bpejit.tokenfiles.array_files import BinFormat

    ids = np.arange(1 << 17, dtype=np.uint32) % 5000
    with BinFormat().writer(tmp_path / "t", vocab_size=5000, tokenizer_sha256="a" * 64) as writer:
        for piece in (ids[:100], ids[100:], ids):
            writer.write(piece)
    tokens = bpejit.open_tokens(tmp_path / "t")
    tokens.verify()
    assert tokens.n_tokens == 2 * ids.size


def test_info_of_a_text_file(work):
    (work / "shard00.txt").write_bytes("naïve text — even bytes\n".encode() * 400)
    message = refuses(work, "info", "shard00.txt")
    assert "neither a tokenizer nor a token file: it contains text" in message
    (work / "empty.bin").touch()
    result = invoke("info", "empty.bin")
    assert "not known" in result.stdout
    assert "token file  " not in result.stdout


def test_inputs_of_several_checks_are_looked_up_once(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(TEXT)
    (tmp_path / "other").write_bytes(TEXT)
    names = iter([str(tmp_path / "missing"), str(tmp_path / "input")])
    inputs = InputFiles(names)
    check_outputs([tmp_path / "new"], inputs=inputs)
    for _ in range(2):
        check_outputs([tmp_path / "other"], inputs=inputs, overwrite=True)
        with pytest.raises(OutputError, match="it is one of the inputs"):
            check_outputs([tmp_path / "input"], inputs=inputs, overwrite=True)
    assert list(names) == []
