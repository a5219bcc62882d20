"""Tests of the manifest of a job."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, strategies as st

from bpejit.corpus.fingerprints import IdentifiedInputs
from bpejit.jobs.job_folder import sealed
from bpejit.jobs.job_records import finished_manifest, identify_part

PATHS = st.text(alphabet='{}", :\\\nabpath', max_size=30) | st.sampled_from(
    ['}, {"path": ', '"}, {', "}, {", '{"path": "a"}, {"path": ']
)


@given(st.lists(PATHS, max_size=6), st.lists(PATHS, max_size=3))
def test_finished_manifest__each_input_in_one_line(paths: list[str], names: list[str]) -> None:
    entries = [{"path": path, "size": index, "sha256": None} for index, path in enumerate(paths)]
    job: dict[str, Any] = {"keep_columns": names, "inputs": entries}
    outputs = [{"path": path, "tokens": 3} for path in names]
    data = finished_manifest(job, {"tokens": 6}, outputs)
    fields = {"format": "bpejit job", "format_version": 1, "job": job, "tokens": 6, "outputs": outputs}
    assert json.loads(data) == fields
    assert b'\n "job": {\n  "keep_columns": [' in data
    lines = [line.strip(b" ,") for line in data.splitlines()]
    for entry in [*entries, *outputs, *names]:
        assert json.dumps(entry).encode() in lines


def input_fields(path: str, size: int, kind: str) -> dict[str, Any]:
    """Return the fields of a file, a remote file or a pipe (see `identify_input`)."""
    known: dict[str, Any] = {"sha256": "0" * 64} if kind == "file" else {"checksum": path}
    return {"path": path, "size": None, "sha256": None} if kind == "pipe" else {"path": path, "size": size, **known}


INPUT = st.builds(input_fields, PATHS | st.text(max_size=3), st.integers(0, 2**50), st.sampled_from(["file", "remote", "pipe"]))


@given(st.lists(INPUT, max_size=4))
def test_text_of_inputs_is_json(fields: list[dict[str, Any]]) -> None:
    plain, known = {"dtype": "uint16", "inputs": fields}, {"dtype": "uint16", "inputs": IdentifiedInputs(fields)}
    assert IdentifiedInputs(fields).texts == [json.dumps(one) for one in fields]
    assert sealed({"job": known, "parts": 1}) == sealed({"job": plain, "parts": 1})
    assert finished_manifest(known, {"tokens": 6}, []) == finished_manifest(plain, {"tokens": 6}, [])
    assert identify_part(known, 0, 1) == identify_part(plain, 0, 1)
