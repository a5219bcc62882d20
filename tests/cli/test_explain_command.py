"""Tests of `bpejit explain`, and of how its steps are shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.cli import ENVIRONMENT, invoke, run

import bpejit

WORDS = ["--words", "hug=10,pug=5,pun=12,bun=4,hugs=5"]
HUGS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}

FIRST = """\
words     h│u│g 10   p│u│g 5   p│u│n 12   b│u│n 4   h│u│g│s 5

merge 1   u│g   becomes ug, 20 times
buckets   20: u│g   17: p│u   16: u│n   15: h│u   5: g│s   4: b│u
index     lists 3 words, 0 stale
words     h│ug 10   p│ug 5   p│u│n 12   b│u│n 4   h│ug│s 5
fewer     p│u 17 to 12   h│u 15 to 0   g│s 5 to 0
new       h│ug 15   p│ug 5   ug│s 5

end       1 merge; there may be pairs left
index     9 lists with 15 words; the merges read 1 list with 3, 0 stale
"""


def explained(*arguments: str | Path) -> str:
    result = invoke("explain", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_plain_text() -> None:
    assert explained(*WORDS, "--merges", "1") == FIRST
    assert f"{bpejit.explain(words=HUGS, merges=1)!r}\n" == FIRST
    text = explained(*WORDS)
    assert "tied      hug│s\nwhy       greatest-bytes: the greatest left token first, by its bytes" in text
    assert "7 merges; nothing is left to merge" in text
    assert explained("--words", "abc=5,ab=4,bc=6").count("lists 2 words, 1 stale") == 1


def test_lines_are_wrapped_and_long_rows_are_cut() -> None:
    text = explained("--text", " ".join(f"{one}{two}" for one in "abcdefghij" for two in "klmnopqrs自然\x1b"), "--merges", "30")
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"and \d+ more words", text)
    assert re.search(r"and \d+ more pairs", text)
    assert "␣│a│l 1" in text
    assert "\\u001b" in text
    assert "\x1b" not in text


def test_long_words_are_cut() -> None:
    text = explained("--words", f"{'ab' * 400}=3,ab=2,hug=1", "--merges", "1")
    assert max(map(len, text.splitlines())) <= 80
    first, *_, rest = [line for line in text.splitlines() if line.startswith("words")]
    assert re.match(r"words     (a│b│)+a(│b)? \.\.\. 3", first)
    assert re.match(r"words     (ab│)+ab \.\.\. 3", rest)
    assert "ab" * 300 not in text
    assert bpejit.explain(words={"ab" * 400: 3}, merges=0).to_dict()["words"][0]["tokens"] == ["a", "b"] * 400


def test_colors() -> None:
    colored = explained(*WORDS, "--merges", "1", "--color", "always")
    plain = [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", colored).splitlines()]
    assert plain == FIRST.replace("│", "").splitlines()


def test_a_stream_without_box_lines() -> None:
    done = run("explain", "--text", "a a a", "--merges", "1", env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert b"merge 1    |a   becomes  a, 2 times" in done.stdout


def test_json_and_options(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("low lower<|e|>lowest", encoding="utf-8")
    options = ["--merges", "3", "--tie-break", "hf", "--pattern", "cl100k", "--special-token", "<|e|>"]
    found = json.loads(explained(tmp_path / "corpus.txt", *options, "--json"))
    trace = bpejit.explain(
        tmp_path / "corpus.txt", merges=3, tie_break="hf", pattern="cl100k", special_tokens=["<|e|>"]
    ).to_dict()
    assert found == {"command": "explain", **trace}
    assert json.loads(explained("--text", "low lower<|e|>lowest", *options, "--json")) == found


def test_page(tmp_path: Path) -> None:
    page = tmp_path / "steps.html"
    result = invoke("explain", *WORDS, "--html", page)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"wrote `{page}`\n")
    assert page.read_text(encoding="utf-8") == bpejit.explain(words=HUGS).page()
    assert "already exists" in invoke("explain", *WORDS, "--html", page).stderr
    assert json.loads(explained(*WORDS, "--html", page, "--overwrite", "--json"))["complete"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "or give `--text` or `--words`"),
        ([*WORDS, "--text", "a"], 1, "2 of `[INPUT]`, `--text` and `--words` are given"),
        (["--words", "hug"], 2, "'hug'; expected words, each with `=` and its count, such as hug=10,pug=5"),
        (["--words", ""], 2, "''; expected words"),
        (["--text", "a" * 1_000_001], 1, "give less text, or `--max-bytes 500000` for a sample"),
        ([*WORDS, "--merges", "1001"], 1, "--merges is 1001; expected a whole number from 0 to 1000"),
    ],
)
def test_errors(arguments: list[str], code: int, message: str) -> None:
    result = invoke("explain", *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr


def test_in_notebooks() -> None:
    html = bpejit.explain(text="<b> </script>", merges=1)._repr_html_()
    assert "<b>merge 1</b>" in html
    assert "&lt;" in html
    assert "</script" not in html
