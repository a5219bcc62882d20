"""Tests of `bpejit split`."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import regex
from click.testing import Result
from conftest import data_text, small
from helpers.cli import MODULE, invoke, run
from helpers.strategies import awkward_bytes
from hypothesis import given

import bpejit
from bpejit.arrays import padded_text
from bpejit.kernels.constants import POSITION_MASK
from bpejit.splitting import PRESETS, Splitter

quoted = __import__(f"{MODULE}.text_output", fromlist=["quoted"]).quoted

FAST = "runs as a compiled automaton"


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_bytes("it's 12345 <|e|>\n\n  naïve".encode() + b"\xff\x85\xc2\x85\\\"'\t")
    return path


def succeeds(*arguments: str | Path) -> Result:
    result = invoke("split", *arguments)
    assert result.exit_code == 0, result.stderr
    return result


def pieces_of(pattern: str | tuple[str, ...], data: bytes, specials: tuple[bytes, ...] = ()) -> list[bytes]:
    ends = [end & POSITION_MASK for end in Splitter(pattern, specials).split(*padded_text(data)).tolist()]
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def json_pieces(result: Result) -> list[bytes]:
    """Return the pre-tokens of the only input in a JSON report."""
    (found,) = json.loads(result.stdout)["inputs"]
    return [piece.encode("utf-8", "surrogateescape") for piece in found["pretokens"]]


def test_lines(text_file: Path) -> None:
    result = succeeds(text_file)
    assert result.stdout.splitlines() == [
        *("'it'", '"\'s"', "' 12345'", "' <|'", "'e'", "'|>'", r"'\n\n '", "' naïve'"),
        *(r"'\xff\x85'", r"'\u0085'", r"""'\\"\''"""),
        r"'\t'",
    ]
    first, second = result.stderr.splitlines()
    assert first == f"split {text_file.stat().st_size} bytes into 12 pre-tokens"
    assert second == "the split pattern gpt2 runs as a compiled automaton, which is fast"


def test_special_tokens(text_file: Path) -> None:
    result = succeeds(text_file, "--special-token", "<|e|>", "--special-token", "  ", "--pattern", "llama3", "--count", "9")
    assert result.stdout.splitlines() == [
        *("'it'", '"\'s"', "' '", "'123'", "'45'", "' '", "'<|e|>'  special", r"'\n\n'", "'  '  special")
    ]
    assert "into 12 pre-tokens and 2 special tokens; the first 9 are shown, and all with `--count 0`" in result.stderr


def test_several_patterns_form_a_sequence(text_file: Path) -> None:
    result = succeeds(text_file, "--pattern", r"\p{N}{1,3}", "--pattern", "gpt2", "--count", "5")
    assert result.stdout.splitlines() == ["'it'", '"\'s"', "' '", "'123'", "'45'"]
    assert FAST in result.stderr
    twice = succeeds(text_file, "--pattern", "deepseek-v3", "--pattern", "gpt2", "--json")
    assert json_pieces(twice) == pieces_of((*PRESETS["deepseek-v3"], PRESETS["gpt2"]), text_file.read_bytes())


def test_count(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a " * 90)
    (tmp_path / "b").write_bytes(b"b " * 90)
    result = succeeds(tmp_path / "a", tmp_path / "b")
    assert len(result.stdout.splitlines()) == 100
    assert result.stdout.splitlines()[90:92] == ["' '", "'b'"] or result.stdout.splitlines()[91] == "'b'"
    assert "into 182 pre-tokens; the first 100 are shown" in result.stderr
    result = succeeds(tmp_path / "a", tmp_path / "b", "--count", "0")
    assert len(result.stdout.splitlines()) == 182
    assert "shown" not in result.stderr
    assert len(succeeds(tmp_path / "a", "--count", "3").stdout.splitlines()) == 3
    report = json.loads(succeeds(tmp_path / "[ab]", "--json", "--count", "2").stdout)
    assert [one["pretokens"] for one in report["inputs"]] == [["a", " a"], ["b", " b"]]
    assert [one["path"] for one in report["inputs"]] == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert report["totals"] == {"bytes": 360, "pretokens": 182, "special_tokens": 0}


@pytest.mark.slow
def test_long_texts_are_split_in_chunks(tmp_path: Path) -> None:
    data = (data_text("prose.txt") + data_text("cjk.txt"))[: small(1_500_000, 20_000)]
    (tmp_path / "long").write_bytes(data * small(2, 1))
    expected = pieces_of("o200k", data * small(2, 1))
    result = succeeds(tmp_path / "long", "--pattern", "o200k", "--json")
    assert json_pieces(result) == expected
    result = succeeds(tmp_path / "long", "--pattern", "o200k", "--count", 0)
    assert [ast.literal_eval(line) for line in result.stdout.splitlines()] == [
        piece.decode("utf-8", "backslashreplace") for piece in expected
    ]
    assert f"{len(expected):,} pre-tokens" in result.stderr


def test_empty_text(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert succeeds(tmp_path / "empty").stdout == ""
    assert json_pieces(succeeds(tmp_path / "empty", "--json")) == []
    assert "split 0 bytes into 0 pre-tokens" in succeeds(tmp_path / "empty", "--stats").stderr


def test_statistics(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"aa b b b <s> <s>" + b"x" * 200)
    result = succeeds(tmp_path / "a", "--stats", "--special-token", "<s>", "--count", "2")
    assert result.stdout.splitlines() == [
        "4 distinct pre-tokens; the most frequent:",
        "           3 times  ' b'",
        "           2 times  ' '",
        "the longest:",
        f"         200 bytes  '{'x' * 68}...",
        "           2 bytes  ' b'",
    ]
    assert len(succeeds(tmp_path / "a", "--stats").stdout.splitlines()) == 2 + 2 * 6
    report = json.loads(succeeds(tmp_path / "a", "--stats", "--special-token", "<s>", "--count", "1", "--json").stdout)
    assert report["distinct_pretokens"] == 4
    assert report["most_frequent"] == [{"pretoken": " b", "count": 3, "bytes": 2}]
    assert report["longest"] == [{"pretoken": "x" * 200, "count": 1, "bytes": 200}]
    assert (report["command"], report["totals"]["special_tokens"], report["pattern_name"]) == ("split", 2, "gpt2")
    assert "and 2 special tokens" in result.stderr


def test_tokenizer(tmp_path: Path, text_file: Path) -> None:
    (tmp_path / "corpus").write_bytes(b"a b 12 <s>")
    tokenizer = bpejit.train(tmp_path / "corpus", vocab_size=257, special_tokens=["<|e|>"], pattern="starcoder")
    tokenizer.save(tmp_path / "tokenizer")
    result = succeeds(text_file, "--tokenizer", tmp_path / "tokenizer", "--count", "9")
    assert result.stdout.splitlines()[2:] == ["' '", *(f"'{digit}'" for digit in "12345"), "' '"]
    assert "1 special token;" in result.stderr
    assert "pattern starcoder " + FAST in result.stderr


def test_standard_input(text_file: Path) -> None:
    finished = run("split", "-", "--quiet", input=b"one two\xff")
    assert finished.returncode == 0
    assert finished.stdout.decode().splitlines() == ["'one'", "' two'", r"'\xff'"]
    assert finished.stderr == b""


def test_list_of_presets() -> None:
    result = succeeds("--list")
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(PRESETS)
    assert lines[0].endswith("openai/gpt-2, src/encoder.py")
    assert all(len(line) < 128 for line in lines)


@pytest.mark.parametrize(
    ("pattern", "expected_parts"),
    [
        (r"(?<=a)b", ["`regex` package, some 40 times slower", "the group `(?<=` at character 0", "as in ` ?"]),
        (r"\s+(?=\d{3})|.", ["more than one character at character 3", r"`(?=\d)`"]),
        (r"a+b", ["the slower of two automata", r"`|[\s\S]`, may help"]),
    ],
)
def test_slow_pattern(text_file: Path, pattern: str, expected_parts: list[str]) -> None:
    result = succeeds(text_file, "--pattern", pattern, "--count", "0")
    assert len(result.stdout.splitlines()) == len(pieces_of(pattern, text_file.read_bytes()))
    for part in expected_parts:
        assert part in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pattern", "(a"], "does not compile: missing ) at position 2"),
        (["--pattern", "gpt3"], "there is no split pattern named 'gpt3'"),
        (["--pattern", "gpt2", "--tokenizer", "x"], "cannot be combined"),
        (["--count", "-1"], "--count"),
        (["--special-token", ""], "`--special-token` is empty"),
        (["--tokenizer", "nowhere"], "no tokenizer `nowhere`"),
    ],
)
def test_errors(text_file: Path, arguments: list[str], message: str) -> None:
    result = invoke("split", text_file, *arguments)
    assert result.exit_code in (1, 2)
    assert result.stdout == ""
    assert message in " ".join(result.stderr.split())
    assert "--debug" not in result.stderr
    assert invoke("split").exit_code == 2


@given(awkward_bytes())
def test_quoted_text_is_unambiguous(data: bytes) -> None:
    # Unquoting restores the bytes: `\xNN` is a byte, unlike in Python.
    shown = quoted(data)
    assert shown.isprintable()
    assert len(ast.literal_eval(shown)) == len(data.decode("utf-8", "surrogateescape"))
    back = b""
    for found in regex.finditer(r"\\x(..)|\\[uU][0-9a-f]+|\\.|[^\\]", shown[1:-1]):
        back += (
            bytes.fromhex(found[1]) if found[1] else ast.literal_eval(f'"{found[0]}"' if found[0] != '"' else "'\"'").encode()
        )
    assert back == data
