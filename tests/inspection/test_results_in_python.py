"""`bpejit.stats`, `bpejit.compare` and `bpejit.report`: what they return, beside the JSON reports of the commands."""

from __future__ import annotations

import json
import sys

import pytest
from conftest import data_text, small
from helpers.browser import chromium, console_errors
from helpers.cli import invoke

import bpejit


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python")
    for name in ("prose", "cjk"):
        (folder / f"{name}.txt").write_bytes(data_text(f"{name}.txt")[: small(30_000, 2000)])
    for size in (300, 280):
        bpejit.train([folder / "prose.txt"], vocab_size=size).save(folder / str(size))
    return folder


@pytest.fixture(scope="module")
def tokenizers(folder):
    return [bpejit.load(folder / size) for size in ("300", "280")]


def reported(*arguments):
    """Return the JSON report of a command, without the fields of the run."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    return {name: found[name] for name in found if name not in ("command", "seconds", "stages", "compile_seconds", "notes")}


def as_json(value):
    return json.loads(json.dumps(value, default=lambda data: data.decode("utf-8", "surrogateescape")))


def test_stats_are_those_of_the_command(folder):
    inputs = [folder / "prose.txt", folder / "cjk.txt"]
    found = bpejit.stats(
        folder / "300", inputs, against=[folder / "280"], by_script=True, count=2, labels={"*cjk*": "asian"}, workers=1
    )
    options = ("--against", folder / "280", "--scripts", "--count", 2, "--label", "asian=*cjk*")
    assert as_json(found.to_dict()) == reported("stats", folder / "300", *inputs, *options)
    assert repr(found) == invoke("stats", folder / "300", *inputs, *options).stdout.rstrip("\n")
    assert [row["name"] for row in found.rows] == [str(inputs[0]), "asian", "total"]
    page = found._repr_html_()
    assert page.count("<table") == 9
    assert "<details><summary>longest used tokens</summary>" in page


def test_stats_of_objects_and_texts(tokenizers):
    first, second = tokenizers
    texts = ["some words", "<b>\x1b more"]
    found = bpejit.stats(first, iter(texts), against=second, names=["new", "old"]).to_dict()
    assert (found["tokenizer"], found["tokenizer_sha256"]) == ("tokenizer", first.sha256)
    assert found["total"]["tokens"] == sum(len(first.encode(text)) for text in texts)
    assert found["against"][0]["tokens"] == sum(len(second.encode(text)) for text in texts)
    assert found["groups"][0]["name"] == "texts"
    shown = bpejit.stats(first, iter(texts), against=[second, second])
    assert "tokenizer 2  tokenizer 3" in repr(shown)
    assert "\x1b" not in repr(shown) + shown._repr_html_()


def test_comparison_is_that_of_the_command(folder, tokenizers):
    inputs = [folder / "prose.txt", folder / "cjk.txt"]
    found = bpejit.compare(folder / "300", folder / "280", inputs, count=3, n_texts=2)
    expected = reported("compare", folder / "300", folder / "280", *inputs, "--count", 3, "--texts", 2)
    assert as_json(found.to_dict()) == expected
    assert repr(found) == invoke("compare", folder / "300", folder / "280", *inputs, "--count", 3, "--texts", 2).stdout.rstrip()
    page = found._repr_html_()
    assert page.count("<table") == 3
    assert page.count("font-family:monospace") == 4  # two texts with two tokenizers
    without = bpejit.compare(*tokenizers)
    assert (without.to_dict()["groups"], without.rows, without.texts) == ([], [], [])
    assert without.to_dict()["vocabulary"] == bpejit.compare(*tokenizers, iter(["a"])).to_dict()["vocabulary"]


def test_report_is_saved_and_shown_in_a_frame(folder, tokenizers, tmp_path):
    found = bpejit.report(tokenizers[0], [folder / "cjk.txt"], against=tokenizers[1], names=["a<b", "old"])
    out = tmp_path / "report.html"
    found.save(out)
    assert out.read_text(encoding="utf-8") == found.page
    with pytest.raises(bpejit.OutputError, match="overwrite="):
        found.save(out)
    found.save(out, overwrite=True)
    frame = found._repr_html_()
    assert frame.startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert frame.count("<") == 2
    assert "a<b and old" in repr(found)
    fields = found.to_dict()
    assert fields["bytes"] == out.stat().st_size
    assert [row["sha256"] for row in found.rows] == [tokenizer.sha256 for tokenizer in tokenizers]
    assert found.rows[0]["tokens"] == fields["tokens"] == len(tokenizers[0].encode((folder / "cjk.txt").read_bytes()))
    assert bpejit.report(folder / "280").to_dict()["tokens"] is None


@pytest.fixture
def browser():
    with chromium() as driver:
        yield driver


@pytest.mark.slow
def test_links_of_a_framed_report_stay_in_the_frame(browser, tokenizers, tmp_path):
    (tmp_path / "book.html").write_text(bpejit.report(tokenizers[0])._repr_html_(), encoding="utf-8")
    browser.get((tmp_path / "book.html").as_uri())
    browser.switch_to.frame(browser.find_element("css selector", "iframe"))
    browser.find_element("css selector", "nav a[href='#tokens']").click()
    assert browser.execute_script("return location.href") == "about:srcdoc#tokens"
    assert browser.find_elements("css selector", "#tokens")
    assert console_errors(browser) == []


def test_data_frames(folder, tokenizers, monkeypatch):
    pytest.importorskip("pandas")
    inputs = [folder / "prose.txt", folder / "cjk.txt"]
    found = bpejit.stats(tokenizers[0], inputs, against=folder / "280")
    frame = found.to_pandas()
    assert list(frame["name"]) == [*map(str, inputs), "total"]
    assert frame["tokens"].tolist() == [row["tokens"] for row in found.rows]
    assert frame["tokens of 280"].iloc[-1] == found.to_dict()["against"][0]["tokens"]
    compared = bpejit.compare(*tokenizers, inputs, n_texts=0).to_pandas()
    assert list(compared.columns) == ["name", "bytes", "tokens of A tokenizer", "tokens of B tokenizer 2", "ratio"]
    assert len(compared) == 3
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(bpejit.UnsupportedError, match="run `pip install pandas`"):
        found.to_pandas()


def test_wrong_arguments(folder, tokenizers):
    text = folder / "prose.txt"
    with pytest.raises(bpejit.ArgumentTypeError, match="tokenizer is 5, an int; expected a Tokenizer, or the path of one"):
        bpejit.stats(5, text)
    with pytest.raises(bpejit.OptionError, match=r"names has 2 names \('a', 'b'\) for 1 tokenizer; expected at most one"):
        bpejit.stats(tokenizers[0], text, names=["a", "b"])
    with pytest.raises(bpejit.OptionError, match="labels groups inputs, and there are none"):
        bpejit.compare(*tokenizers, labels={"*": "a"})
    with pytest.raises(bpejit.ArgumentTypeError, match="count is 'x'"):
        bpejit.stats(tokenizers[0], text, count="x")
    with pytest.raises(bpejit.CorpusError, match="contains no text"):
        bpejit.compare(*tokenizers, iter([]))
