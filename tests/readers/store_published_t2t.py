"""Write the results of Tensor2Tensor to `tests/t2t/published.json`, after `make readers` and a change of the cases.

    PYTHONPATH=tests .venv/bin/python tests/readers/store_published_t2t.py

It needs the optional corpora.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from helpers.t2t import STORED, published_results

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = published_results(Path(folder))
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    STORED.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
