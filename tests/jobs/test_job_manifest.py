"""Tests of the manifest of a job."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, strategies as st

from bpejit.jobs.job_records import finished_manifest

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
