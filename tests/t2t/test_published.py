"""Comparison with results of Tensor2Tensor that are stored in `published.json`; `tests/readers` runs Tensor2Tensor itself."""

from __future__ import annotations

import json

import pytest
from helpers.t2t import SMALL, STORED, TEXTS, differences, results

PUBLISHED = json.loads(STORED.read_text(encoding="utf-8"))


def test_all_texts_are_stored():
    assert set(PUBLISHED) == {SMALL, *TEXTS}


@pytest.mark.compiled
@pytest.mark.parametrize("name", [SMALL, *TEXTS])
def test_equals_tensor2tensor(name, tmp_path):
    assert differences(results(name, tmp_path), PUBLISHED[name]) == {}
