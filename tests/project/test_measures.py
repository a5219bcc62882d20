"""The measures of size and structure are within their limits, and the functions that compute them are right."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import measures
from limits import AT_LEAST, AT_MOST


@pytest.fixture(scope="module")
def found() -> dict[str, float]:
    return measures.measure()


def test_every_measure_has_one_limit(found: dict[str, float]) -> None:
    assert AT_MOST.keys() | AT_LEAST.keys() == found.keys()
    assert not AT_MOST.keys() & AT_LEAST.keys()


@pytest.mark.parametrize("name", AT_MOST)
def test_at_most(found: dict[str, float], name: str) -> None:
    assert found[name] <= AT_MOST[name]


@pytest.mark.parametrize("name", AT_LEAST)
def test_at_least(found: dict[str, float], name: str) -> None:
    assert found[name] >= AT_LEAST[name]


SAMPLE = '''"""One line."""

from __future__ import annotations

LIMIT = 3  # a comment
"""Of an attribute,
in two lines.
"""


@decorator
def add(a, b):
    """Add."""

    # why
    return (
        a + b
    )
'''


def test_lines_and_tokens_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "bpejit" / "sample.py"
    path.parent.mkdir()
    path.write_text(SAMPLE, encoding="utf-8")
    (source,) = measures.read_sources(tmp_path)
    assert source.module == "bpejit.sample"
    assert source.n_lines == 18
    assert source.docstring_lines == {1, 6, 7, 8, 13}
    assert source.code_lines == {3, 5, 11, 12, 16, 17, 18}
    assert list(source.functions()) == [("add", 5)]
    strings = [token.string for token in source.tokens]
    assert strings[:8] == ['"""One line."""', "from", "__future__", "import", "annotations", "LIMIT", "=", "3"]


def test_contract(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": 'layers = [\n  "top",\n  "low | other",\n]\n',
        "bpejit/__init__.py": "",
        "bpejit/top.py": "from bpejit.low import part\n",
        "bpejit/low/__init__.py": "",
        "bpejit/low/part.py": "import importlib\nimportlib.import_module('bpejit.top')\nimport bpejit.other\n",
        "bpejit/other.py": "def call():\n    from bpejit.low.part import x\n",
        "bpejit/lost.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    contract = measures.measure_contract(measures.read_sources(tmp_path), tmp_path)
    assert contract == measures.Contract(2, ["bpejit.lost"], ["bpejit.low.part: bpejit.top"], ["bpejit.low <-> bpejit.other"])
