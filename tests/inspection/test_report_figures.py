"""Tests of the figures, names and texts of reports, without a browser."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.encoding import learned_model
from helpers.reports import hostile_model

from bpejit.corpus.sources import find_sources
from bpejit.encoding.codec import Codec
from bpejit.inspection.corpus_stats import corpus_stats
from bpejit.inspection.differing_texts import PASSAGE_BYTES, find_differing_texts, typical_texts
from bpejit.inspection.names import short_names
from bpejit.inspection.report_page import in_words, page_figures, script_json, settings_list
from bpejit.inspection.token_counts import count_inputs
from bpejit.inspection.visible_text import html_text, spaces_or
from bpejit.splitting import PRESETS

PROSE = "It was a bright cold day in April, and the clocks were striking thirteen; nobody was surprised.\n"
RULER = "=" * 40 + " | " + "-" * 50 + "\n"


@pytest.fixture
def sources(tmp_path):
    (tmp_path / "prose.txt").write_text((RULER * 3 + PROSE * 20) * 3, encoding="utf-8")
    (tmp_path / "long.txt").write_text("漢字かな" * 300 + "\n", encoding="utf-8")
    (tmp_path / "empty.txt").write_text("", encoding="utf-8")
    return find_sources([tmp_path / f"{name}.txt" for name in ("prose", "long", "empty")])


def test_short_names():
    assert short_names(["corpus/en/a.txt", "corpus/zh/a.txt"]) == ["en/a.txt", "zh/a.txt"]
    assert short_names(["corpus/a.txt", "corpus/ab.txt"]) == ["a.txt", "ab.txt"]
    assert short_names(["/long/way/a.txt"]) == ["a.txt"]
    assert short_names(["C/C++", "Python"]) == ["C/C++", "Python"]
    assert short_names([]) == []


def test_settings_in_words():
    assert in_words([]) == "none"
    assert in_words({"max_bytes": 1000, "pretokens": False}) == "max bytes 1,000, pre-tokens no"
    assert in_words(list(range(102))).endswith(", 98, 99 and 2 more")
    assert in_words("<b>") == "&lt;b&gt;"
    assert in_words({"path": "\x1b.txt", "bytes": 1}) == "<i>\\u001b</i>.txt (1 bytes)"
    page = settings_list("name", hostile_model())
    assert "<script>" not in page
    assert "inputs</dt><dd>&lt;script&gt;" in page
    assert f"gpt2: <code>{html_text(PRESETS['gpt2'].encode())}</code>" in settings_list("name", learned_model(b"aaaa", 1))


def test_tokens_of_spaces():
    assert [spaces_or(b" " * n, bytes.decode) for n in (0, 1, 64)] == ["", "\u2423", "\u2423 \u00d7 64"]
    assert spaces_or(b" a", bytes.decode) == " a"


def test_typical_texts(sources):
    codec = Codec(learned_model(PROSE.encode(), 40))
    found = typical_texts(codec, sources, {"*long.txt": "日本語"}, 3)
    assert list(found) == [sources[0].path, "日本語"]
    prose, long = found.values()
    assert "=" not in prose.decode()
    assert prose.startswith(b"It was")
    assert len(prose) <= PASSAGE_BYTES
    assert long.decode() + "漢字かな" * ((3600 - len(long)) // 12) == "漢字かな" * 300
    assert list(typical_texts(codec, sources, {}, 1)) == [sources[0].path]


def test_differing_texts_are_prose(sources):
    codecs = [Codec(learned_model(text.encode(), 40)) for text in (RULER, PROSE)]
    found = find_differing_texts(*codecs, sources[:1], n_texts=1)
    assert found[0]["text"] == PROSE.strip().encode()


def test_figures(sources):
    models = {"ours": learned_model(PROSE.encode(), 40), "theirs": hostile_model()}
    counts = {name: count_inputs(Codec(model), sources, by_script=True) for name, model in models.items()}
    dense = {name: of.total.dense(models[name].vocab_size) for name, of in counts.items()}
    stats = [corpus_stats(models[name], of) for name, of in counts.items()]
    found = page_figures(models, dense, stats)
    assert found["texts"] == ["prose.txt", "long.txt", "empty.txt"]
    assert [row["tokens"] for row in found["vocabularies"]] == [len(model.vocab) for model in models.values()]
    assert found["vocabularies"][0]["alone"] == 0
    for of, name in zip(found["stats"], models, strict=True):
        assert of["total"]["vocab_share"] == np.count_nonzero(dense[name]) / len(models[name].vocab)
    sizes, ratios = found["curves"]["compression"][0]
    assert (sizes[0], ratios[0]) == (256, 1)
    assert ratios[-1] == pytest.approx(stats[0]["total"]["bytes_per_token"], abs=1e-4)
    lengths, numbers = found["curves"]["lengths"][1]
    assert sum(numbers) == len(models["theirs"].vocab)
    assert lengths == list(range(1, 41))
    ranks, occurrences = found["curves"]["frequencies"][0]
    assert ranks[0] == 1
    assert occurrences[0] == dense["ours"].max()
    assert "<" not in script_json(found)
    without = page_figures(models, {name: of * 0 for name, of in dense.items()}, [])
    assert list(without["curves"]) == ["lengths"]
