"""The bar of `progress=True` on a terminal."""

from __future__ import annotations

import inspect
import io
import sys

import pytest

import bpejit
from bpejit.progress_bar import ProgressBar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def use_terminal(monkeypatch):
    """Return the standard error of the test from now on, a terminal."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"  # the cursor


def test_functions_show_a_bar_for_each_stage(monkeypatch, tmp_path):
    terminal = use_terminal(monkeypatch)
    (tmp_path / "text.txt").write_text("some words " * 999)
    tokenizer = bpejit.train(tmp_path / "text.txt", vocab_size=265, progress=True)
    assert "merge" in terminal.getvalue()
    calls = [
        ("encode", lambda: tokenizer.encode_files(tmp_path / "text.txt", tmp_path / "ids.bin", progress=True)),
        ("decode", lambda: tokenizer.decode_file(tmp_path / "ids.bin", tmp_path / "copy.txt", progress=True)),
        ("convert", lambda: bpejit.convert_tokens(tmp_path / "ids.bin", tmp_path / "ids.npy", progress=True)),
        ("verify", lambda: bpejit.open_tokens(tmp_path / "ids.bin").verify(progress=True)),
        ("merge", lambda: bpejit.explain(text="low lower lowest", progress=True)),
        ("count", lambda: bpejit.count(tmp_path / "text.txt", out=tmp_path / "counts", progress=True)),
        ("write", lambda: bpejit.merge_counts([tmp_path / "counts"], tmp_path / "merged", progress=True)),
        ("verify", lambda: bpejit.verify(tokenizer, tmp_path / "text.txt", against="tiktoken", progress=True)),
        ("against", lambda: bpejit.stats(tokenizer, tmp_path / "text.txt", against=tokenizer, progress=True)),
    ]
    for stage, call in calls:
        terminal.seek(0)
        terminal.truncate()
        call()
        output = terminal.getvalue()
        assert stage in output
        assert output.count(HIDDEN) == output.count(SHOWN) == 1
        assert output.rstrip().endswith(SHOWN)


def test_bar_ends_with_an_error(monkeypatch):
    terminal = use_terminal(monkeypatch)

    def texts():
        yield "some words" * 99
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost") as caught:
        bpejit.count(texts(), progress=True)
    assert caught.value.__traceback__ is not None  # whose frames have the bar
    assert terminal.getvalue().count(HIDDEN) == terminal.getvalue().count(SHOWN)


def test_no_bar(monkeypatch):
    terminal = use_terminal(monkeypatch)
    bpejit.count(iter(["some words"]), progress=False)
    calls = []
    bpejit.count(iter(["some words"]), progress=lambda *report: calls.append(report))
    assert terminal.getvalue() == ""
    assert calls


def test_figures_of_a_stage(monkeypatch):
    terminal = use_terminal(monkeypatch)
    bar = ProgressBar()
    bar("read", 0, 2_000_000, "bytes")
    bar.details(tokens=500)
    bar("read", 1_000_000, 2_000_000, "bytes")
    bar.close()
    assert "1.0 MB of 2.0 MB" in terminal.getvalue()
    assert "tokens/s" in terminal.getvalue()
    assert bar.stages["read"].done == 1_000_000


def test_all_functions_that_report_accept_true():
    functions = [getattr(bpejit, name) for name in bpejit.__all__] + list(vars(bpejit.Tokenizer).values())
    reporting = [one for one in functions if inspect.isfunction(one) and "progress" in inspect.signature(one).parameters]
    assert len(reporting) >= 12
    for function in reporting:
        assert inspect.unwrap(function) is not function, function  # by `takes` or `showing_progress`
