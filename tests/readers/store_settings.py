"""Write what transformers 4 and 5 give to `tests/formats/settings.json`, after `make readers` and a change of the cases.

PYTHONPATH=tests:tests/readers .venv/bin/python tests/readers/store_settings.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from helpers.settings_cases import CASES, STORED, published_settings
from test_acceptance import ENVIRONMENTS

if __name__ == "__main__":
    found = {}
    for version in ("4", "5"):
        with tempfile.TemporaryDirectory() as folder:
            found[version] = published_settings(Path(folder), ENVIRONMENTS / f"transformers{version}" / "bin" / "python")
    lines = []
    for name in CASES:
        other = {key: value for key, value in found["5"][name].items() if value != found["4"][name][key]}
        lines.append(f"{json.dumps(name)}: {json.dumps({'4': found['4'][name], 'other in 5': other})}")
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
