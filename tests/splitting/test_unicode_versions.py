"""Tests of patterns that follow a version of Unicode: tables, sets, texts compared with other tools, and storage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import regex
from conftest import examples, read_shared, small
from helpers.cli import invoke
from helpers.splitting import split_whole
from helpers.strategies import PATTERN_ALPHABET, awkward_text, split_patterns
from hypothesis import example, given, strategies as st

import bpejit
from bpejit.arrays import Array, padded_text
from bpejit.errors import PatternError, TokenizerFormatError
from bpejit.formats.folder import load_folder
from bpejit.formats.folder_writing import save_folder
from bpejit.formats.huggingface_reading import model_from_json
from bpejit.formats.missing_parts import TOOLS_UNICODE
from bpejit.model import Model
from bpejit.normalization.alignment import AlignedText
from bpejit.normalization.pretokenizers import make_pretokenizer
from bpejit.splitting import PRESETS, Pattern, Splitter, compile_pattern, to_fancy_regex, to_oniguruma, unicode_versions
from bpejit.splitting.character_classes import set_boundaries
from bpejit.splitting.pattern_cache import _compile
from bpejit.splitting.pattern_compiler import compile_uncached
from bpejit.splitting.regex_syntax import Chars
from bpejit.splitting.unicode_versions import VERSIONS, as_text, check_unicode, differing, free_points, installed_unicode

tiktoken = pytest.importorskip("tiktoken")
tokenizers = pytest.importorskip("tokenizers")

FOLLOWED = VERSIONS[: VERSIONS.index(installed_unicode()) + 1]
"""The versions that the installed `regex` package can follow."""

BYTES = {bytes([byte]): byte for byte in range(256)}

CHARACTERS = as_text(np.concatenate([np.arange(0xD800), np.arange(0xE000, 0x110000)]))
"""The characters of random texts."""

SETS = [
    *(r"\p{L}", r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}", r"\p{M}", r"\p{N}", r"\p{P}", r"\p{S}", r"\p{Cn}"),
    *(r"\s", r"\p{Han}", r"(?i:[a-hj-z])", r"(?i:[\u0277\u00e9])"),
]

LATER_CHARACTERS = [point for points, _ in differing(TOOLS_UNICODE) for point in points.tolist()]

later_characters = st.sampled_from(LATER_CHARACTERS or [0x378]).map(chr)


@st.composite
def later_text(draw: st.DrawFn) -> str:
    """Draw text that mixes characters known and unknown to other tools."""
    some = st.one_of(
        later_characters, later_characters, st.sampled_from(["a", "B", "1", " ", "\n", "'s", "\u4e2d", "\u0301", "!"])
    )
    parts = st.lists(st.one_of(some, some, some, awkward_text(2)), max_size=16)
    return "".join(draw(parts))


def pieces(splitter: Splitter, text: str) -> list[str]:
    data = text.encode()
    ends = split_whole(splitter, data)
    return [data[start:end].decode() for start, end in pairwise([0, *ends])]


def members(source: str, version: str | None) -> Array:
    """Return a mask of the code points in a set."""
    ignoring = source.startswith("(?i:")
    steps = np.zeros(0x110001, dtype=bool)
    steps[set_boundaries(Chars(source[4:-1] if ignoring else source, ignoring), version)] = True
    return np.logical_xor.accumulate(steps)[:-1]


def mask_of(text: str) -> Array:
    """Return a mask of the code points in a text."""
    found = np.zeros(0x110000, dtype=bool)
    found[np.frombuffer(text.encode("utf-32-le"), dtype="<u4")] = True
    return found


# ---- the tables


def test_tables_are_consistent() -> None:
    added = [unicode_versions._points(unicode_versions._ADDED[version]) for version in VERSIONS[1:]]
    every = np.concatenate([unicode_versions._points(unicode_versions._UNASSIGNED), *added])
    assert len(set(every.tolist())) == every.size
    assert [points.size for points in added] == [627, 5185, 4803, 13007]
    assert unicode_versions.UNASSIGNED in unicode_versions._points(unicode_versions._UNASSIGNED)


@pytest.mark.skipif(installed_unicode() != VERSIONS[-1], reason="needs a `regex` package with the newest version of Unicode")
def test_tables_match_the_regex_package() -> None:
    assert np.flatnonzero(members(r"\p{Cn}", None)).tolist() == unicode_versions._absent_from(VERSIONS[-1]).tolist()
    assert differing(VERSIONS[-1]) == ()
    for version in VERSIONS:
        for points, representative in differing(version):
            assert not regex.search(r"\p{Cn}", as_text(points))
            assert representative not in points


@cache
def by_tiktoken(source: str) -> Array:
    # tiktoken drops text that the pattern does not match.
    encoding = tiktoken.Encoding("test", pat_str=source, mergeable_ranks=BYTES, special_tokens={})
    found = bytearray()
    for start in range(0, len(CHARACTERS), 4096):
        found += bytes(encoding.encode_ordinary(CHARACTERS[start : start + 4096]))
    return mask_of(found.decode())


@cache
def by_tokenizers(source: str) -> Array:
    splitter = tokenizers.pre_tokenizers.Split(tokenizers.Regex(f"(?:{source})+"), "removed", invert=True)
    found: list[str] = []
    for start in range(0, len(CHARACTERS), 4096):
        found += [piece for piece, _ in splitter.pre_tokenize_str(CHARACTERS[start : start + 4096])]
    return mask_of("".join(found))


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("source", SETS)
def test_sets_match_other_tools(source: str) -> None:
    ours = members(source, TOOLS_UNICODE)
    for theirs in (by_tiktoken(source), by_tokenizers(source)):
        assert np.flatnonzero(ours != theirs).tolist() == []


# ---- sets


@pytest.mark.parametrize("version", FOLLOWED)
def test_sets_contain_characters_that_they_list(version: str) -> None:
    absent = next(iter(LATER_CHARACTERS), 0x378)
    letters = members(r"\p{L}", version)
    named = np.arange(0x110000) == absent
    for source, expected in (
        (chr(absent), named),
        (rf"[\p{{L}}\U{absent:08X}]", letters | named),
        (rf"[^\p{{L}}\U{absent:08X}]", ~(letters | named)),
        (r"[\u0530-\u058f]", (np.arange(0x110000) >= 0x530) & (np.arange(0x110000) < 0x590)),
        (r"[\P{L}a]", ~letters | (np.arange(0x110000) == ord("a"))),
        (r"\W", ~members(r"\w", version)),
        (".", np.arange(0x110000) != ord("\n")),
    ):
        assert np.array_equal(members(source, version), expected), source


def test_characters_that_changed() -> None:
    def changed(source: str, before: str, after: str, point: int) -> bool:
        return members(source, before)[point] and not members(source, after)[point]

    if "17.0" in FOLLOWED:
        assert changed(r"\p{Ll}", "16.0", "17.0", 0x295)
        assert changed(r"\p{Lo}", "17.0", "16.0", 0x295)
    assert changed(r"\p{Mn}", "15.1", "16.0", 0x1171E)
    assert changed(r"\p{Alphabetic}", "16.0", "15.1", 0x363)


# ---- whole texts


def by_regex(splitter: Splitter, text: str) -> list[int]:
    return splitter.split_by_regex(*padded_text(text.encode())).tolist()


@cache
def splitter_for(pattern: Pattern, version: str) -> Splitter:
    return Splitter(pattern, unicode=version)


@given(st.sampled_from(sorted(PRESETS)), st.sampled_from(FOLLOWED), later_text())
def test_automaton_and_regex_package_agree(name: str, version: str, text: str) -> None:
    splitter = splitter_for(name, version)
    assert splitter.automaton is not None
    assert split_whole(splitter, text.encode()) == by_regex(splitter, text)


@examples(0.6)
@given(split_patterns(), st.sampled_from(FOLLOWED), st.text(alphabet=PATTERN_ALPHABET + "\u0295\u058b\ua7dd\u0277\U000323b0"))
def test_random_patterns(source: str, version: str, text: str) -> None:
    try:
        splitter = Splitter(compile_uncached(source, unicode=version))
    except PatternError as error:
        assert "no split pattern named" in str(error)  # noqa: PT017
        return
    assert split_whole(splitter, text.encode()) == by_regex(splitter, text)


@cache
def tokenizers_splitter(pattern: Pattern) -> Any:
    stages = (pattern,) if isinstance(pattern, str) else pattern
    split = tokenizers.pre_tokenizers.Split
    return tokenizers.pre_tokenizers.Sequence(
        [split(tokenizers.Regex(to_oniguruma(stage, unicode=TOOLS_UNICODE)), "isolated") for stage in stages]
    )


def by_split(pattern: Pattern, text: str) -> list[str]:
    return [piece for piece, _ in tokenizers_splitter(pattern).pre_tokenize_str(text)]


def assert_tiktoken_splits_into(translated: str, found: list[str]) -> None:
    """Make each piece and each two adjacent pieces a token: then each piece is encoded as its own token."""
    parts = [piece.encode() for piece in found]
    ranks = dict(BYTES)
    for piece in [*parts, *(left + right for left, right in pairwise(parts))]:
        ranks.setdefault(piece, len(ranks))
    encoding = tiktoken.Encoding("test", pat_str=translated, mergeable_ranks=ranks, special_tokens={})
    assert encoding.encode_ordinary("".join(found)) == [ranks[piece] for piece in parts]


@given(st.sampled_from(sorted(PRESETS)), later_text())
@example("gpt2", "a\u058b 1\u058b2\u058b")
@example("o200k", "A\u0295b\u0295\u0295\u0295A")
@example("kimi-k2", "\u4e2d\U000323b0\u4e2d")
def test_other_tools_agree(name: str, text: str) -> None:
    found = pieces(splitter_for(name, TOOLS_UNICODE), text)
    pattern = PRESETS[name]
    assert by_split(pattern, text) == found
    if isinstance(pattern, str):
        assert_tiktoken_splits_into(to_fancy_regex(pattern, unicode=TOOLS_UNICODE), found)


def contexts(points: list[int]) -> str:
    """Return each character between letters, after a digit, between spaces, alone in a line, in mixed case, and doubled."""
    return "".join(
        f"a{chr(point)}b 1{chr(point)}2 {chr(point)} \n{chr(point)}\nA{chr(point)}Bc{chr(point) * 2}.\n" for point in points
    )


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k", "deepseek-v3", "kimi-k2"])
def test_other_tools_agree_on_later_characters(name: str) -> None:
    # The limits of ranges, and some code points within.
    steps = np.flatnonzero(np.diff(LATER_CHARACTERS) > 1).tolist()
    some = {*LATER_CHARACTERS[::11], *(LATER_CHARACTERS[index + side] for index in steps for side in (0, 1))}
    text = contexts(sorted(some))
    assert pieces(splitter_for(name, TOOLS_UNICODE), text) == by_split(PRESETS[name], text)


# ---- patterns that run through the `regex` package


@given(later_text())
@example("\u058b\u058b\u058c\u058b aa")
def test_back_references_distinguish_characters(text: str) -> None:
    # Without a version nothing is replaced.
    plain = Splitter(r"(.)\1+|[\s\S]")
    assert plain.automaton is None
    assert by_regex(splitter_for(r"(.)\1+|[\s\S]", TOOLS_UNICODE), text) == by_regex(plain, text)


@given(later_text())
def test_look_behind(text: str) -> None:
    pattern = r"(?<=\p{L})\p{N}+|\p{L}+|(?<![\u4e00-\u9fff])[^\s\p{L}]|\s+"
    splitter = splitter_for(pattern, TOOLS_UNICODE)
    assert splitter.automaton is None
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    assert pieces(splitter, text) == [piece for piece, _ in split.pre_tokenize_str(text)]


@pytest.mark.skipif(not LATER_CHARACTERS, reason="needs a `regex` package with a newer version of Unicode")
def test_slow_pattern_that_lists_missing_characters() -> None:
    absent = chr(LATER_CHARACTERS[0])
    assert pieces(Splitter(rf"[{absent}\p{{L}}]+|[\s\S]", unicode=TOOLS_UNICODE), f"a{absent}b") == [f"a{absent}b"]
    with pytest.raises(PatternError, match=f"U\\+{ord(absent):04X}, which are missing in Unicode 16.0"):
        compile_pattern(rf"(?<=x)[{absent}\p{{L}}]+|[\s\S]", unicode=TOOLS_UNICODE)


def test_stages_of_a_sequence_have_their_own_substitutes() -> None:
    # U+11DE0 is a number for the first expression, and not assigned for the second: no character is both now.
    splitter = Splitter((r"[\p{N}\U00011DE0-\U00011DE9]", r"\s+(?!\S)|\S+", PRESETS["gpt2"]), unicode="16.0")
    assert splitter.automaton is None
    assert pieces(splitter, "a 1\U00011de0b\U00011de3 ") == ["a", " ", "1", "\U00011de0", "b", "\U00011de3", " "]


# ---- `tokenizer.json`


@pytest.mark.slow
def test_components_of_tokenizer_json() -> None:
    """`Digits` and `Punctuation` have tables of their own, of other versions of Unicode."""
    some = sorted({*np.flatnonzero(members(r"[\p{N}\p{P}]", None)).tolist(), *LATER_CHARACTERS[::13], *range(0x590)})
    text = "".join(f"a{chr(point)}1{chr(point)}" for point in some[:: small(1, 20)])
    for part in (
        {"type": "Digits", "individual_digits": True},
        {"type": "Digits", "individual_digits": False},
        {"type": "Punctuation", "behavior": "Isolated"},
        {"type": "Split", "pattern": {"Regex": r"[[:upper:]&&[^A]]"}, "behavior": "Isolated", "invert": False},
    ):
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        value = {"type": "Sequence", "pretokenizers": [part, level]}
        ours = make_pretokenizer(value, mapped=False, unicode=TOOLS_UNICODE)
        theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
        content = json.loads(theirs.to_str())
        content["pre_tokenizer"] = value
        theirs = tokenizers.Tokenizer.from_str(json.dumps(content)).pre_tokenizer
        expected = [piece for piece, _ in theirs.pre_tokenize_str(text)]
        assert [piece.text for piece in ours.pieces(AlignedText(text))] == expected, part
        if ours.patterns is not None:
            assert len(pieces(Splitter(ours.patterns, unicode=TOOLS_UNICODE), text)) == len(expected)


# ---- storage of the version

TOKENS = {byte: bytes([byte]) for byte in range(256)}


def test_version_is_part_of_the_model() -> None:
    model = Model(TOKENS, [])
    hashes = {model.sha256, *(replace(model, unicode=version).sha256 for version in VERSIONS)}
    assert len(hashes) == len(VERSIONS) + 1


def test_training_records_the_version(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a\u058ba\u058b " * 20)
    model = bpejit.train([corpus], vocab_size=260).model
    assert model.unicode == installed_unicode()
    assert bpejit.Tokenizer(model.vocab, model.merges, list(model.special_tokens)).model.unicode == installed_unicode()
    older = bpejit.train([corpus], vocab_size=260, unicode="16.0")
    assert older.model.unicode == "16.0"
    # In that version, U+058B is not a letter, and no pair is merged across it.
    assert not any(b"a\xd6" in token or b"\x8ba" in token for token in older.vocab.values())
    if "18.0" in FOLLOWED:
        assert any(b"a\xd6" in token or b"\x8ba" in token for token in model.vocab.values())
    older.save(tmp_path / "folder")
    assert bpejit.load(tmp_path / "folder").model == older.model


@pytest.mark.parametrize("form", ["bpejit", "hf", "tiktoken", "gpt2"])
def test_saving_preserves_the_version(tmp_path: Path, form: str) -> None:
    tokens = {**TOKENS, 256: b"ab"}
    for number, version in enumerate([None, *FOLLOWED]):
        model = Model(tokens, [], {"<s>": 257}, ranked=True, unicode=version)
        if form == "gpt2":
            model = Model(tokens, [(b"a", b"b")], {"<s>": 257}, unicode=version)
        path = tmp_path / (f"{number}.tiktoken" if form == "tiktoken" else str(number))
        bpejit.Tokenizer.from_model(model).save(path, format=form)
        loaded = bpejit.load(path).model
        if form == "gpt2":  # the file that tells GPT-2 from other vocabularies is a configuration, and is read as one
            model = replace(model, config=loaded.config)
        assert loaded == model
        assert bpejit.load(path, unicode="16.0").model == replace(model, unicode="16.0")


def test_files_of_other_tools_have_the_version_of_the_tools(tmp_path: Path) -> None:
    ranks = tmp_path / "ranks.tiktoken"
    save = bpejit.Tokenizer.from_model(Model(TOKENS, [], ranked=True)).save
    save(ranks, format="tiktoken")
    (tmp_path / "ranks.tiktoken.bpejit.json").unlink()
    assert bpejit.load(ranks, pattern="o200k").model.unicode == TOOLS_UNICODE
    save(tmp_path / "folder")
    content = json.loads((tmp_path / "folder" / "tokenizer.json").read_bytes())
    assert model_from_json(content).unicode == TOOLS_UNICODE
    assert model_from_json(content, unicode="15.0").unicode == "15.0"
    with pytest.raises(PatternError, match=r"'9\.0' is not known; expected 15.0, "):
        bpejit.load(ranks, pattern="o200k", unicode="9.0")


def test_folder_without_version(tmp_path: Path) -> None:
    model = Model(TOKENS, [])
    save_folder(model, tmp_path)
    own = json.loads((tmp_path / "bpejit.json").read_bytes())
    assert own["format_version"] == 1
    assert own.pop("unicode") is None
    (tmp_path / "bpejit.json").write_text(json.dumps(own))
    assert load_folder(tmp_path) == model
    own["unicode"] = 16
    (tmp_path / "bpejit.json").write_text(json.dumps(own))
    with pytest.raises(TokenizerFormatError, match=r"unicode is 16; expected a string or null"):
        load_folder(tmp_path)


# ---- other `regex` packages


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clear the cached facts about the installed `regex` package before and after the test; store nothing on disk."""
    monkeypatch.setattr("bpejit.splitting.pattern_cache.load_tables", lambda *_: None)
    monkeypatch.setattr("bpejit.splitting.pattern_cache.store_tables", lambda *_: None)
    caches = (installed_unicode, differing, free_points, set_boundaries, _compile)
    for function in caches:
        function.cache_clear()
    yield
    for function in caches:
        function.cache_clear()


def test_older_regex_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anew: None) -> None:
    model = Model(TOKENS, [], unicode=installed_unicode())
    save_folder(model, tmp_path)
    monkeypatch.setattr(unicode_versions, "installed_unicode", lambda: "15.1")
    with pytest.raises(PatternError, match=r"has Unicode 15.1.*`pip install --upgrade regex`"):
        check_unicode("16.0")
    check_unicode("15.0")
    with pytest.raises(TokenizerFormatError, match=r"bpejit.json`: .*`pip install --upgrade regex`.*`unicode=`"):
        load_folder(tmp_path)
    assert load_folder(tmp_path, unicode="15.1") == replace(model, unicode="15.1")


def test_regex_package_newer_than_the_tables(monkeypatch: pytest.MonkeyPatch, anew: None) -> None:
    if len(FOLLOWED) < 4:
        pytest.skip("needs a `regex` package with a newer version of Unicode")
    expected = {source: members(source, "16.0") for source in SETS}
    text = contexts([point for point in LATER_CHARACTERS[::97] if point != 0x295])
    found = pieces(Splitter("o200k", unicode="16.0"), text)
    # The tables of the time when 16.0 was the newest version. They lack a later change, U+0295.
    added = [unicode_versions._ADDED[version] for version in VERSIONS[3:]]
    monkeypatch.setattr(unicode_versions, "_UNASSIGNED", " ".join([unicode_versions._UNASSIGNED, *added]))
    monkeypatch.setattr(unicode_versions, "VERSIONS", VERSIONS[:3])
    for function in (installed_unicode, differing, free_points, set_boundaries, _compile):
        function.cache_clear()
    assert installed_unicode() == "16.0"
    for source in SETS:
        assert set(np.flatnonzero(members(source, "16.0") != expected[source]).tolist()) <= {0x295}, source
    assert pieces(Splitter("o200k", unicode="16.0"), text) == found


# ---- the command line


def test_commands(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a\u058bb")

    def spans(result) -> list[str]:
        return json.loads(result.stdout)["inputs"][0]["pretokens"]

    absent = invoke("split", text, "--json", "--unicode", "16.0")
    assert spans(absent) == ["a", "\u058b", "b"]
    if "18.0" in FOLLOWED:
        assert spans(invoke("split", text, "--json")) == ["a\u058bb"]
    result = invoke("train", text, "--vocab-size", "257", "--out", tmp_path / "folder", "--unicode", "16.0")
    assert result.exit_code == 0, result.output
    assert "unicode         16.0\n" in invoke("info", tmp_path / "folder").stdout
    assert "unicode         15.0\n" in invoke("info", tmp_path / "folder", "--unicode", "15.0").stdout
    assert spans(invoke("split", text, "--json", "--tokenizer", tmp_path / "folder")) == ["a", "\u058b", "b"]
    wrong = invoke("split", text, "--unicode", "1.0")
    assert wrong.exit_code == 1
    assert "'1.0' is not known" in wrong.stderr


# ---- published vocabularies

FILES = [
    *(("cl100k_base.tiktoken", "tiktoken", {}), ("o200k_base.tiktoken", "tiktoken", {})),
    *(("qwen2_voyage3.tiktoken", "tiktoken", {"pattern": "qwen2"}), ("kimi_k2.tiktoken", "tiktoken", {"pattern": "kimi-k2"})),
    *(("r50k_base.tiktoken", "tiktoken", {}), ("p50k_base.tiktoken", "tiktoken", {})),
    *(("gpt2.tokenizer.json", "tokenizers", {}), ("olmo2_dolma2.tokenizer.json", "tokenizers", {})),
    ("olmo_gpt-neox-dolma-v1_5.tokenizer.json", "tokenizers", {}),
]
IN_EACH_RUN = ("r50k_base.tiktoken", "gpt2.tokenizer.json")


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize(
    ("file", "tool", "options"),
    [entry if entry[0] in IN_EACH_RUN else pytest.param(*entry, marks=pytest.mark.parity) for entry in FILES],
)
def test_published_vocabularies(tmp_path: Path, file: str, tool: Any, options: dict[str, Any]) -> None:
    path = tmp_path / file
    path.write_bytes(read_shared(f"vocabs/{file}"))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(contexts(LATER_CHARACTERS), encoding="utf-8")
    damaged = tmp_path / "damaged.bin"
    damaged.write_bytes(read_shared("corpora/hard_bytes.bin"))
    report = bpejit.verify(bpejit.load(path, **options), [str(corpus), str(damaged)], against=tool, path=path)
    assert report.difference is None
    assert report.ids > 500_000
