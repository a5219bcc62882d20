"""Comparison with Tensor2Tensor in an environment of its own; run by `make readers` (see `test_acceptance.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.t2t import PYTHON, SMALL, STORED, TEXTS, differences, published_results, results


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not PYTHON.exists():
        pytest.skip("needs the environment tensor2tensor: run `make readers`")
    return published_results(tmp_path_factory.mktemp("texts"))


def test_equals_tensor2tensor(published: dict[str, Any], tmp_path: Path) -> None:
    for name in (SMALL, *TEXTS):
        folder = tmp_path / name
        folder.mkdir()
        assert differences(results(name, folder), published[name]) == {}, name


def test_stored_results_are_current(published: dict[str, Any]) -> None:
    assert json.loads(STORED.read_text(encoding="utf-8")) == published
