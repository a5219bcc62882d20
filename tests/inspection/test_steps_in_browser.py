"""Tests of the page of `bpejit explain --html` in a headless Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.browser import chromium, console_errors, resize, use_dark_mode

import bpejit

pytestmark = pytest.mark.slow

pytest.importorskip("selenium")

LEFT, RIGHT, END = "\ue012", "\ue014", "\ue010"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


def shown(browser: Any) -> str:
    """Return the text of the steps that are visible."""
    steps = browser.find_elements("css selector", "main > section")
    return "\n".join(step.text for step in steps if step.is_displayed())


def test_steps(browser: Any, tmp_path: Path) -> None:
    words = {"hug": 10, "pug": 5, "pun": 12, "<script>hacked=1</script>": 4, "hugs": 5}
    page = tmp_path / "steps.html"
    page.write_text(bpejit.explain(words=words, merges=7).page(), encoding="utf-8")
    use_dark_mode(browser, False)
    resize(browser, 1280, 900)
    browser.get(page.as_uri())
    body = browser.find_element("css selector", "body")
    where = browser.find_element("css selector", "#where")
    assert (where.text, shown(browser).partition("\n")[0]) == ("step 0 of 8", "words")
    body.send_keys(RIGHT)
    assert shown(browser).startswith("merge 1\n")
    assert "20 times" in shown(browser)
    browser.find_element("css selector", "#next").click()
    assert (where.text, "merge 2" in shown(browser), "merge 1" in shown(browser)) == ("step 2 of 8", True, False)
    browser.find_element("css selector", "#at").send_keys(RIGHT)
    assert where.text == "step 3 of 8"
    browser.find_element("css selector", "#back").click()
    body.send_keys(LEFT, LEFT, LEFT, LEFT)
    assert where.text == "step 0 of 8"
    body.send_keys(END)
    assert "there may be pairs left" in shown(browser)
    assert not browser.find_element("css selector", "#next").is_enabled()
    assert browser.current_url.endswith("#8")
    browser.refresh()
    assert browser.find_element("css selector", "#where").text == "step 8 of 8"
    assert browser.execute_script("return window.hacked") is None
    assert browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)") == []
    assert console_errors(browser) == []


def test_narrow_and_dark(browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "steps.html"
    page.write_text(bpejit.explain(text="a" * 300 + " 自然语言 low lower lowest", merges=5).page(), encoding="utf-8")
    use_dark_mode(browser, True)
    resize(browser, 380, 740)
    browser.get(page.as_uri())
    for step in (0, 1, 5, 6):
        browser.execute_script(f"location.hash = '#{step}'")
        assert browser.execute_script("return document.documentElement.scrollWidth") == 380
    background = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert max(map(int, background[4:-1].split(", "))) < 60
    assert console_errors(browser) == []
