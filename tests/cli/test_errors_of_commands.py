"""Tests of commands on invalid input: one-line errors, exit codes, and unchanged files."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import data_text, small
from helpers.cli import COMMAND, COMMANDS, ENVIRONMENT, MODULE, copy_files, invoke, run, snapshot

import bpejit

TEXT = data_text("prose.txt")[: small(100_000, 3000)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with a corpus, a tokenizer and a token file."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "corpus.txt").write_bytes(TEXT)
    assert invoke("train", folder / "corpus.txt", "--vocab-size", 300, "--out", folder / "tokenizer").exit_code == 0
    tokens = ["--out", folder / "tokens.bin", "--tokenizer", folder / "tokenizer"]
    assert invoke("encode", folder / "corpus.txt", *tokens).exit_code == 0
    return folder


@pytest.fixture
def work(made, tmp_path, monkeypatch):
    """Return the working directory, with copies of the files of `made`."""
    copy_files(made, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fails(work, *arguments, code=1):
    """Run a command that must fail and change no file; return its standard error."""
    before = snapshot(work)
    result = invoke(*arguments)
    assert snapshot(work) == before
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    if code == 1:
        assert result.stderr.startswith("bpejit: error: ")
        assert result.stderr.count("\n") == 1
        assert "Traceback" not in result.stderr
        assert not result.stderr.rstrip("\n").endswith(".")
    return result.stderr


TRAIN = ["--vocab-size", "300", "--overwrite"]


@pytest.mark.parametrize(
    "command", [["train", *TRAIN], ["encode", "--out", "tokens.bin", "--overwrite"]], ids=["train", "encode"]
)
def test_unreadable_input(work, command):
    (work / "folder").mkdir()
    assert "`missing.txt`" in fails(work, *command, "missing.txt")
    assert "`folder`" in fails(work, *command, "corpus.txt", "folder")
    assert "`*.nothing`" in fails(work, *command, "*.nothing")
    assert "`-`" in fails(work, *command, "-", "-")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_input_without_permission(work):
    (work / "secret.txt").write_bytes(TEXT)
    (work / "secret.txt").chmod(0)
    assert "`secret.txt`" in invoke("train", "secret.txt", *TRAIN).stderr


def test_empty_corpus(work):
    (work / "empty.txt").write_bytes(b"")
    assert "`empty.txt`" in fails(work, "train", "empty.txt", *TRAIN)
    (work / "only.txt").write_bytes(b"<|endoftext|><|endoftext|>")
    assert "`only.txt`" in fails(work, "train", "only.txt", *TRAIN)


def test_empty_text_encodes_to_no_tokens(work):
    (work / "empty.txt").write_bytes(b"")
    result = invoke("encode", "empty.txt", "--out", "none.bin")
    assert result.exit_code == 0, result.stderr
    assert (work / "none.bin").read_bytes() == b""
    assert invoke("decode", "none.bin").stdout == ""


def test_vocabulary_too_small(work):
    message = fails(work, "train", "corpus.txt", "--vocab-size", "256", "--out", "new")
    assert "256" in message
    assert "--vocab-size is 256; expected a whole number from 257 up" in message
    three = ["--special-token", "a", "--special-token", "b", "--special-token", "c"]
    assert "from 259 up" in fails(work, "train", "corpus.txt", "--vocab-size", "5", *three, "--out", "new")
    assert "-1" in fails(work, "train", "corpus.txt", "--vocab-size", "-1", "--out", "new")


@pytest.mark.parametrize("pattern", ["(", "[a", "a{3,1}", r"\p{Nonsense}", "*"])
def test_invalid_pattern(work, pattern):
    message = fails(work, "train", "corpus.txt", *TRAIN, "--pattern", pattern)
    assert pattern in message


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train", "corpus.txt"], "--vocab-size"),
        (["train", *TRAIN], "INPUT"),
        (["train", "corpus.txt", "--vocab-size", "many"], "'many' is not a count; expected one such as 32000, 32_000 or 32k"),
        (["train", "corpus.txt", *TRAIN, "--tie-break", "first"], "'greatest-bytes', 'smallest-ids', 'hf'"),
        (["train", "corpus.txt", *TRAIN, "--engine", "magic"], "'auto', 'serial', 'threads', 'processes'"),
        (["train", "corpus.txt", *TRAIN, "--workers", "0"], "'0' is too small; expected a count of at least 1"),
        (["train", "corpus.txt", *TRAIN, "--min-frequency", "0"], "expected a count of at least 1"),
        (["train", "corpus.txt", *TRAIN, "--no-special-tokens", "--special-token", "x"], "cannot be combined"),
        (["train", "corpus.txt", *TRAIN, "--colour"], "--colour"),
        (["encode", "corpus.txt"], "--out"),
        (["encode", "corpus.txt", "--out", "x.bin", "--dtype", "uint8"], "'auto', 'uint16', 'uint32'"),
        (["decode"], "TOKENS"),
        (["info"], "TOKENIZER|TOKENS"),
        (["fly"], "fly"),
    ],
)
def test_wrong_usage(work, arguments, expected):
    message = fails(work, *arguments, code=2)
    assert message.startswith("Usage: bpejit ")
    assert expected in message.splitlines()[-1]


def test_missing_or_damaged_tokenizer(work):
    assert "`nowhere`" in fails(work, "encode", "corpus.txt", "--out", "x.bin", "--tokenizer", "nowhere")
    assert "`nowhere`" in fails(work, "decode", "tokens.bin", "--tokenizer", "nowhere")
    assert "nowhere" in fails(work, "info", "nowhere")
    for name in ("tokenizer.json", "bpejit.json"):
        path = work / "tokenizer" / name
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        assert name in fails(work, "encode", "corpus.txt", "--out", "x.bin")
        path.unlink()
        if name == "tokenizer.json":  # a tokenizer even without bpejit.json
            assert name in fails(work, "encode", "corpus.txt", "--out", "x.bin")
        path.write_bytes(whole)


def test_modified_vocabulary(work):
    path, own = work / "tokenizer" / "tokenizer.json", work / "tokenizer" / "bpejit.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["model"]["vocab"]["!"]
    path.write_text(json.dumps(content), encoding="utf-8")
    assert "was changed" in fails(work, "encode", "corpus.txt", "--out", "x.bin")
    fields = json.loads(own.read_text(encoding="utf-8"))
    fields["tokenizer_file_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    own.write_text(json.dumps(fields), encoding="utf-8")
    assert "lacks 1 of the 256 single bytes (0x21)" in fails(work, "encode", "corpus.txt", "--out", "x.bin")


def test_token_id_out_of_range(work):
    (work / "ids.bin").write_bytes(b"\x41\x00\x2c\x01\x42\x00")
    assert (work / "ids.bin").stat().st_size == 6
    message = fails(work, "decode", "ids.bin", "--out", "back.txt", "--dtype", "uint16")
    assert "300" in message


def test_truncated_token_file(work):
    (work / "tokens.bin").write_bytes((work / "tokens.bin").read_bytes()[:-1])
    assert "`tokens.bin`" in fails(work, "decode", "tokens.bin", "--out", "back.txt")
    (work / "odd.bin").write_bytes(b"abc")
    assert "multiple" in fails(work, "decode", "odd.bin", "--out", "back.txt", "--dtype", "uint16")
    assert "`odd.bin`" in fails(work, "info", "odd.bin")


def test_token_file_without_dtype(work):
    (work / "tokens.bin.json").unlink()
    assert "--dtype" in fails(work, "decode", "tokens.bin", "--out", "back.txt")
    result = invoke("decode", "tokens.bin", "--out", "back.txt", "--dtype", "uint16")
    assert result.exit_code == 0, result.stderr
    assert (work / "back.txt").read_bytes() == TEXT


def test_token_file_of_another_tokenizer(work):
    assert invoke("train", "corpus.txt", "--vocab-size", "290", "--out", "other").exit_code == 0
    message = fails(work, "decode", "tokens.bin", "--tokenizer", "other", "--out", "back.txt")
    assert "tokens.bin" in message


def test_missing_token_file(work):
    assert "missing.bin" in fails(work, "decode", "missing.bin", "--out", "back.txt")
    assert "missing.bin" in fails(work, "info", "missing.bin")


def test_unwritable_output(work):
    assert "no/such/place" in fails(work, "encode", "corpus.txt", "--out", "no/such/place/t.bin")
    assert "no/such/place" in fails(work, "decode", "tokens.bin", "--out", "no/such/place/back.txt")
    (work / "file").write_bytes(b"kept")
    assert "file" in fails(work, "train", "corpus.txt", *TRAIN, "--out", "file/tokenizer")
    (work / "foreign").mkdir()
    (work / "foreign" / "tokenizer.json").write_bytes(b"{}")
    # The input does not exist either: the error shows that the output folder is checked first.
    assert "`foreign`" in fails(work, "train", "missing.txt", "--vocab-size", "300", "--out", "foreign")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="limits are POSIX")
@pytest.mark.compiled
def test_full_disk(work):
    """A limit on file sizes simulates a full disk."""

    def limit():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    for arguments in (
        ["train", "corpus.txt", *TRAIN],
        ["encode", "corpus.txt", "--out", "tokens.bin", "--overwrite"],
        ["decode", "tokens.bin", "--out", "corpus.txt", "--overwrite"],
    ):
        before = snapshot(work)
        result = run(*arguments, cwd=work, preexec_fn=limit, env={**ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": "1"})
        assert result.returncode == 1, result.stderr
        assert result.stderr.startswith(b"bpejit: error: ")
        assert result.stderr.count(b"\n") == 1
        assert b"too large" in result.stderr
        assert snapshot(work) == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_full_stdout(work):
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        result = run("decode", "tokens.bin", cwd=work, stdout=full)
    assert result.returncode == 1
    assert result.stderr.decode().startswith("bpejit: error: ")
    assert "No space left" in result.stderr.decode()
    assert result.stderr.count(b"\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
def test_closed_pipe(work):
    with subprocess.Popen(
        [*COMMAND, "decode", "tokens.bin"], cwd=work, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=600) != 0


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(
    ("number", "code", "message"),
    [(signal.SIGINT, 130, b"bpejit: interrupted\n"), (signal.SIGTERM, 143, b"bpejit: terminated\n")],
)
def test_interrupted_run_leaves_no_files(work, number, code, message):
    before = snapshot(work)
    command = [*COMMAND, "encode", "-", "--out", "tokens.bin", "--overwrite"]
    with subprocess.Popen(
        command,
        cwd=work,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Shells make background processes ignore interrupts, which their children inherit.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as process:
        deadline = time.monotonic() + 600
        while set(snapshot(work)) == set(before):  # wait for the temporary file
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(timeout=60) == code
        assert process.stderr.read() == message
    assert snapshot(work) == before


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("engine", ["processes", "threads"])
def test_terminated_process_group(work, engine):
    """Containers and schedulers terminate all workers at once; this must not be reported as a failed worker."""
    before = snapshot(work)
    command = [*COMMAND, "encode", "-", "--out", "new.bin", "--engine", engine, "--workers", "2"]
    with subprocess.Popen(
        command,
        cwd=work,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL),
    ) as process:
        process.stdin.write(TEXT)
        process.stdin.flush()
        deadline = time.monotonic() + 600
        while set(snapshot(work)) == set(before):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.2)  # wait until the command waits for input
        for _ in range(3):
            os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(timeout=60) == 143
        assert process.stderr.read() == b"bpejit: terminated\n"
    assert snapshot(work) == before


def test_terminated_before_command_starts():
    code = f"""
import os, signal
import {MODULE}
class Importing:
    def find_spec(self, name, path=None, target=None):
        if name == "{MODULE}.app":
            os.kill(os.getpid(), signal.SIGTERM)
import sys
sys.meta_path.insert(0, Importing())
{MODULE}.main()
"""
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (143, b"bpejit: terminated\n")


@pytest.mark.parametrize("arguments", [["--debug", "info", "nowhere"], ["info", "nowhere", "--debug"]])
def test_debug_shows_traceback(work, arguments):
    result = run(*arguments, cwd=work)
    assert result.returncode == 1
    assert b"Traceback (most recent call last)" in result.stderr
    assert b"Error: " in result.stderr.splitlines()[-1]


def test_unexpected_errors_take_one_line(work, monkeypatch):
    from bpejit.formats import any_format

    def broken(*_arguments, **_options):
        raise KeyError("a bug\nin two lines")

    monkeypatch.setattr(any_format, "load_model", broken)
    message = fails(work, "encode", "corpus.txt", "--out", "x.bin")
    assert "KeyError" in message
    assert "--debug" in message
    monkeypatch.setattr(any_format, "load_model", lambda path, **_options: (_ for _ in ()).throw(MemoryError()))
    assert "not enough memory" in fails(work, "encode", "corpus.txt", "--out", "x.bin")


@pytest.mark.parametrize(
    ("arguments", "example"),
    [
        (["-v"], "bpejit train ... -v"),
        (["--json", "encode", "text"], "bpejit encode ... --json"),
        (["-q", "tokens", "info"], "bpejit tokens ... -q"),
        (["--vocab-size", "300"], "bpejit train ... --vocab-size"),
        (["tokens", "--tokenizer", "folder"], "bpejit tokens head ... --tokenizer"),
    ],
)
def test_options_before_the_command(arguments, example):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert f"write it after the command, as in `{example}`" in result.stderr
    assert re.search("No such option:? '?--nix", invoke("--nix").stderr)  # with and without quotes, by the version of click


@pytest.mark.parametrize(
    ("arguments", "example"),
    [
        (("encode", "--out", "x"), "bpejit encode corpus.txt --out tokens.bin"),
        (("train", "--vocab-size", "300"), "bpejit train corpus.txt --vocab-size 32k"),
        (("count", "--out", "x"), "bpejit count corpus.txt --out corpus.counts"),
        (("stats", "tokenizer"), "bpejit stats tokenizer corpus.txt"),
        (("split",), "bpejit split --pattern llama3 corpus.txt"),
        (("extend", "tokenizer", "--vocab-size", "300", "--out", "x"), "bpejit extend tokenizer corpus.txt --vocab-size 32k"),
        (("verify", "tokenizer", "--against", "tiktoken"), "bpejit verify tokenizer corpus.txt --against tokenizers"),
        (("subword", "train", "--vocab-size", "300", "--out", "x"), "bpejit subword train corpus.txt --vocab-size 8192"),
    ],
)
def test_missing_input_shows_a_command(arguments, example):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert f"name a file, as in `{example}" in result.stderr


def test_help_lists_presets():
    from bpejit.splitting import PRESETS

    pattern = next(parameter for parameter in COMMANDS["train"].params if parameter.name == "pattern")
    assert pattern.help.partition(": ")[2].partition(", or")[0].split(", ") == list(PRESETS)


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "corpus.txt", "--vocab-size", "300", "--out", "x" * 3000),
        ("train", "corpus.txt", "--vocab-size", "9" * 6000),
        ("train", "corpus.txt", "--vocab-size", "300", "--tie-break", "x" * 100_000),
        ("encode", "corpus.txt", "--out", "new.bin", "--tokenizer", "x" * 3000),
        ("encode", "corpus.txt", "--out", "new.bin", "--special-token", "x=" + "9" * 6000),
        ("info", "corpus.txt", "--" + "x" * 100_000),
        ("x" * 100_000,),
    ],
)
def test_long_values_are_shortened(made, arguments):
    result = run(*arguments, cwd=made)
    assert result.returncode in (1, 2)
    assert len(result.stderr) < 1000
    assert b"internal error" not in result.stderr


def test_too_many_open_files(made, monkeypatch):
    def fail(*_arguments, **_options):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "module.py")

    monkeypatch.setattr(bpejit, "load", fail)
    result = invoke("info", made / "tokenizer")
    assert result.exit_code == 1
    assert result.stderr.endswith("'module.py': raise the limit on open files (`ulimit -n`)\n")
    assert "internal error" not in result.stderr


@pytest.mark.parametrize("field", ["format_version", "tokenizer_file_sha256", "sha256"])
def test_long_values_in_saved_folder_are_shortened(made, tmp_path, field):
    folder = tmp_path / "tokenizer"
    shutil.copytree(made / "tokenizer", folder)
    fields = json.loads((folder / "bpejit.json").read_bytes())
    fields[field] = 10**4000 if field == "format_version" else "x" * 400_000
    (folder / "bpejit.json").write_text(json.dumps(fields))
    result = invoke("info", folder)
    assert result.exit_code == 1
    assert len(result.stderr) < 700


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["tran"], "there is no command 'tran': did you mean `train`?"),
        (["xyz"], "there is no command 'xyz': `bpejit --help` lists them"),
        (["encode", "a", "--out", "b", "--out-dir", "c"], "`--out` and `--out-dir` are both given"),
    ],
)
def test_similar_commands_are_named(arguments, shown):
    result = invoke(*arguments)
    assert (result.exit_code, shown in result.stderr) == (2, True), result.stderr


def test_text_that_is_also_a_file(work):
    assert "`corpus.txt` is also a file: `--file`" in invoke("show", "tokenizer", "corpus.txt").stderr
    assert "also a file" not in invoke("show", "tokenizer", "some text").stderr
