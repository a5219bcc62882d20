"""Tests of the page of `bpejit report` in a headless Chromium."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest
from conftest import data_text
from helpers.browser import chromium, console_errors, resize, use_dark_mode
from helpers.encoding import learned_model
from helpers.reports import HOSTILE, hostile_model, large_model

import bpejit
from bpejit.corpus.sources import find_sources
from bpejit.encoding.codec import Codec
from bpejit.inspection.report_page import report_page
from bpejit.inspection.token_counts import count_inputs
from bpejit.inspection.visible_text import visible_pieces

pytestmark = [pytest.mark.slow, pytest.mark.compiled]

ActionChains = pytest.importorskip("selenium.webdriver").ActionChains


@pytest.fixture(scope="module")
def browser():
    with chromium() as driver:
        yield driver


def write_report(models, folder, texts):
    """Write a report on models and return its address and the reported tokenizers."""
    paths = []
    for name, text in texts.items():
        (folder / name).write_bytes(text)
        paths.append(folder / name)
    sources = find_sources(paths)
    codecs = {name: Codec(model) for name, model in models.items()}
    counts = [count_inputs(codec, sources, by_script=True) for codec in codecs.values()]
    page = folder / "report.html"
    page.write_text(report_page(codecs, counts, {name: text[:300] for name, text in texts.items()}), encoding="utf-8")
    reported = [
        SimpleNamespace(codec=codec, model=codec.model, counts=of) for codec, of in zip(codecs.values(), counts, strict=True)
    ]
    return page.as_uri(), reported


def wait_for(condition):
    for _ in range(200):
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("the page did not get there in ten seconds")


def open_page(browser, address):
    use_dark_mode(browser, False)
    resize(browser, 1200, 900)
    console_errors(browser)
    browser.get(address)
    wait_for(lambda: browser.execute_script("return document.documentElement.dataset.ready"))


def element(browser, selector):
    return browser.find_element("css selector", selector)


def search(browser, text):
    """Type a text and return the number of tokens found, as soon as the page states it."""
    box = element(browser, "#search")
    box.clear()
    box.send_keys("x\b", text)
    # The page updates the status a moment after the last input. This is one more: the next status is that of the whole text.
    browser.execute_script(
        "document.querySelector('#status').textContent = ''; arguments[0].dispatchEvent(new Event('input'))", box
    )
    status = wait_for(lambda: element(browser, "#status").text)
    return int(status.split(" of ")[0].replace(",", ""))


def shown_rows(browser):
    """Return the cells of the visible rows, in order."""
    script = """return [...document.querySelectorAll('.row')].filter(row => !row.hidden).sort((a, b) => a.at - b.at)
        .map(row => [...row.children].map(cell => cell.textContent))"""
    return browser.execute_script(script)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    texts = {
        "prose.txt": data_text("prose.txt")[:100_000],
        "cjk.txt": data_text("cjk.txt")[:50_000].decode("utf-8", "ignore").encode(),
    }
    address, reported = write_report({"large": large_model()}, folder, texts)
    return address, reported[0]


def test_content_of_a_large_vocabulary(browser, large):
    address, reported = large
    open_page(browser, address)
    assert console_errors(browser) == []
    assert element(browser, "h1").text == "large"
    assert Path(urlsplit(address).path).stat().st_size < 2_000_000
    assert element(browser, "#status").text == "256,001 of 256,001 tokens"
    assert len(browser.find_elements("css selector", ".row")) < 60
    assert len(browser.find_elements("css selector", "figure svg")) == 8
    text = element(browser, "#summary").text
    assert f"{reported.counts.total.total:,}" in text
    assert element(browser, "#settings").text.count(reported.model.sha256) == 1
    resources = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name for name in resources if not name.startswith("data:")] == []


def test_sorting(browser, large):
    address, reported = large
    open_page(browser, address)
    counts = reported.counts.total.dense(reported.model.vocab_size)
    best = sorted(range(counts.size), key=lambda number: (-counts[number], number))
    assert [int(row[0]) for row in shown_rows(browser)[:10]] == best[:10]  # the order at the beginning
    element(browser, "[data-key=count]").click()
    assert [int(row[0]) for row in shown_rows(browser)[:3]] == best[::-1][:3]
    element(browser, "[data-key=token]").click()
    vocab = reported.model.vocab
    assert [int(row[0]) for row in shown_rows(browser)[:10]] == sorted(vocab, key=vocab.get)[:10]
    element(browser, "[data-key=bytes]").click()
    assert [int(row[0]) for row in shown_rows(browser)[:5]] == sorted(vocab, key=lambda number: (-len(vocab[number]), number))[
        :5
    ]


def test_search_and_filter(browser, large):
    address, reported = large
    open_page(browser, address)
    vocab = reported.model.vocab
    for text, wanted in (("the", b"the"), ("SHORE", b"shore"), ("\\xe4", b"\xe4"), ("zzzzz", b"zzzzz")):
        assert search(browser, text) == sum(wanted in token.lower() for token in vocab.values()), text
    assert search(browser, "#1234") == 1
    assert shown_rows(browser)[0][0] == "1234"
    element(browser, "#search").send_keys("\ue00c")  # Escape
    assert element(browser, "#status").text.startswith("256,001 of")
    element(browser, "button[data-filter=unused]").click()
    unused = len(vocab) - reported.counts.total.ids.size
    assert element(browser, "#status").text == f"{unused:,} of 256,001 tokens"


def test_keyboard_and_merge_tree(browser, large):
    address, reported = large
    open_page(browser, address)
    merges = reported.model.merges
    element(browser, "[data-key=id]").click()
    element(browser, "body").send_keys("/")
    box = browser.switch_to.active_element
    assert box.get_attribute("id") == "search"
    box.send_keys("\ue015")  # down
    rows = browser.switch_to.active_element
    assert rows.get_attribute("id") == "rows"
    rows.send_keys("\ue010")  # end
    wait_for(lambda: shown_rows(browser)[-1][0] == "256000")
    rows.send_keys("\ue013", "\ue007")  # up, enter
    left, right = merges[-1]
    assert element(browser, "#detail").get_attribute("data-token") == "255999"
    links = browser.execute_script(
        "return [...document.querySelectorAll('.tree > li > ul > li > .link')].map(e => e.textContent)"
    )
    assert links == [left.decode(), right.decode()]
    leaves = browser.execute_script(
        "return [...document.querySelectorAll('.tree li')].filter(e => !e.querySelector('ul'))"
        ".map(e => e.firstChild.textContent)"
    )
    assert "".join(leaves) == (left + right).decode()
    element(browser, ".tree > li > ul > li > .link").click()
    assert element(browser, "#detail").get_attribute("data-token") == str(reported.model.ids[left])
    assert console_errors(browser) == []


def test_narrow_and_dark(browser, large):
    address, _ = large
    open_page(browser, address)
    use_dark_mode(browser, True)
    resize(browser, 360, 740)
    browser.refresh()
    wait_for(lambda: browser.execute_script("return document.documentElement.dataset.ready"))
    assert browser.execute_script("return [document.documentElement.scrollWidth, document.body.scrollWidth]") == [360, 360]
    element(browser, "#rows").click()
    assert browser.execute_script("return document.documentElement.scrollWidth") == 360
    background = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert max(map(int, background[4:-1].split(", "))) < 60
    ink = browser.execute_script("return getComputedStyle(document.querySelector('figure svg text')).fill")
    assert min(map(int, ink[4:-1].split(", "))) > 180
    assert console_errors(browser) == []


BROKEN_LINES = """
const found = [];
const cells = 'th, td:not(:first-child), .card strong, .card li span, summary, figure text, .each p span';
for (const cell of document.querySelectorAll(cells)) {
    if (cell.closest('table.text')) continue;
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const range = document.createRange();
        range.selectNodeContents(walker.currentNode);
        if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) found.push(cell.textContent);
    }
}
return found;
"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    texts = {f"{name}.txt": data_text(f"{name}.txt")[:60_000] for name in ("prose", "cjk", "code")}
    texts["cjk.txt"] = texts["cjk.txt"].decode("utf-8", "ignore").encode()
    learned = [learned_model(texts["prose.txt"] + texts["cjk.txt"], n_merges) for n_merges in (900, 300)]
    models = {"a tokenizer with a long name.json": learned[0], "small": learned[1], "bytes": learned_model(b"aaaa", 1)}
    return write_report(models, folder, texts)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 380])
def test_layout(browser, compared, width, dark):
    address, reported = compared
    open_page(browser, address)
    use_dark_mode(browser, dark)
    resize(browser, width, 900)
    browser.execute_script("document.querySelectorAll('details').forEach(one => one.open = true)")
    wide = wait_for(
        lambda: browser.execute_script(
            "const right = (one) => one.getBoundingClientRect().right;"
            "const fits = [...document.querySelectorAll('figure')].every(one => right(one.querySelector('svg')) <= right(one));"
            "return fits && document.documentElement.scrollWidth"
        )
    )
    assert wide <= width
    assert browser.execute_script(BROKEN_LINES) == []
    lead = element(browser, ".lead").text
    ratio = reported[0].counts.total.total / reported[1].counts.total.total
    assert f"{100 * (1 - ratio):.1f} % fewer tokens than small" in lead
    assert len(browser.find_elements("css selector", ".card strong")) == 4
    best = browser.find_elements("css selector", "#summary .best")
    totals = [entry.counts.total.total for entry in reported]
    assert f"{min(totals):,}" in [one.text for one in best]
    assert f"{max(totals):,}" not in [one.text for one in best]
    assert console_errors(browser) == []


def test_charts(browser, compared):
    address, _ = compared
    open_page(browser, address)
    chart = element(browser, "#chart-compression svg")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    ActionChains(browser).move_to_element_with_offset(chart, -chart.size["width"] // 4, 0).perform()
    lines = element(browser, "#chart-compression .tip").text.splitlines()
    assert lines[0].startswith("tokens of the vocabulary: ")
    assert "small" in lines
    names = [one.text for one in browser.find_elements("css selector", "#chart-compression text.name")]
    assert "small" in names
    # A saved chart is a complete file: the colors of the page, and no reference to anything.
    browser.execute_script("URL.createObjectURL = blob => { window.saved = blob; return '#'; }")
    element(browser, "#chart-groups .save").click()
    svg = browser.execute_async_script("window.saved.text().then(arguments[arguments.length - 1])")
    root = ElementTree.fromstring(svg)
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "Bytes per token of each text"
    assert {"prose.txt", "cjk.txt", "code.txt"} <= set(texts)
    assert "var(" not in svg
    assert "class=" not in svg
    assert console_errors(browser) == []


def test_page_without_texts(browser, tmp_path):
    page = tmp_path / "report.html"
    model = learned_model(b"the theatre of the others " * 9, 12)
    page.write_text(report_page({"alone": Codec(model)}, [], {}), encoding="utf-8")
    open_page(browser, page.as_uri())
    assert len(browser.find_elements("css selector", ".card strong")) == 4
    assert len(browser.find_elements("css selector", "figure svg")) == 1
    assert element(browser, ".row.current").size["height"] == 28
    cells = browser.find_elements("css selector", ".row.current span")
    assert [cell.text for cell in cells[:2]] == [element(browser, "#detail").get_attribute("data-token"), " theatre"]
    assert {cell.location["y"] for cell in cells} == {cells[0].location["y"]}
    assert console_errors(browser) == []


def test_begins_with_a_frequent_token(browser, compared):
    address, reported = compared
    open_page(browser, address)
    token = int(element(browser, "#detail").get_attribute("data-token"))
    counts = reported[0].counts.total.dense(reported[0].model.vocab_size)
    assert (counts > counts[token]).sum() < 40
    assert len(browser.find_elements("css selector", "#detail .tree li")) > 2
    assert element(browser, ".row.current").text.split()[0] == str(token)
    first = element(browser, "#suspicious [data-token]").text
    assert first.isprintable()
    assert "\\" not in first


def test_hostile_tokens(browser, tmp_path):
    model = hostile_model()
    texts = {"<script>window.hacked=1<|script>$x_$.txt": b" ".join(HOSTILE) + "<|\u202e|>".encode()}
    address, (reported, _) = write_report({"</title><script>hacked=1</script>\u202e": model, "other": model}, tmp_path, texts)
    open_page(browser, address)
    assert console_errors(browser) == []
    assert browser.execute_script("return window.hacked") is None
    assert len(browser.find_elements("css selector", "script")) == 3
    for token, number in [*reported.model.ids.items(), *reported.model.special_ids.items()]:
        if token in HOSTILE or number in reported.model.special_vocab:
            assert search(browser, f"#{number}") == 1
            expected = "".join(text for text, _ in visible_pieces(token))
            assert shown_rows(browser)[0][1] == expected
            element(browser, ".row").click()
            assert element(browser, "#detail h3").get_attribute("textContent") == expected
    page = browser.page_source
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "$x_$" in element(browser, "nav + main").get_attribute("textContent")
    assert browser.execute_script("return window.hacked") is None
    for kind, example in (("private", b"someone@example.com"), ("mojibake", "Ã©tÃ©".encode()), ("long", b"=" * 64)):
        element(browser, f"button[data-filter={kind}]").click()
        search(browser, example.decode())
        assert str(model.ids[example]) in [row[0] for row in shown_rows(browser)], kind
    assert console_errors(browser) == []
    assert bpejit.Tokenizer.from_model(model).decode_bytes(reported.codec.encode(texts[next(iter(texts))])) == next(
        iter(texts.values())
    )
