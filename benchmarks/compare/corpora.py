"""The texts: those of tests/data, those of the optional data folder, and any file that is named.

A text is unpacked into the run's own folder, so that every tool reads the same plain file. Results name a text by name,
size and SHA-256, never by where it lay.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
END_OF_TEXT = "<|endoftext|>"
SEPARATOR = END_OF_TEXT.encode()

OPTIONAL = ("english", "code", "multilingual", "hard")
"""Files corpora/NAME.txt or NAME.txt.gz of the optional data folder."""

BY_SCRIPT = ("chinese", "japanese")
"""Documents of `multilingual`, picked out by script."""

OWN = ("prose", "code", "cjk")
"""Files NAME.txt of tests/data."""


class MissingInputError(Exception):
    """An input that is not on this machine; the message says how to get it."""


@dataclass(frozen=True)
class Corpus:
    """A text in a file.

    `made` says how it came about, in words for the report.
    """

    name: str
    path: Path
    n_bytes: int
    sha256: str
    made: str

    def read(self) -> bytes:
        return self.path.read_bytes()

    def record(self) -> dict[str, object]:
        return {"name": self.name, "bytes": self.n_bytes, "sha256": self.sha256, "made": self.made}


def data_folder() -> Path | None:
    """The optional folder of larger corpora and published vocabularies."""
    named = os.environ.get("BPEJIT_SHARED_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None


def read_optional(name: str) -> bytes:
    """Bytes of a file of the optional folder, unpacked."""
    folder = data_folder()
    if folder is None:
        raise MissingInputError(f"{name} is in the optional data folder: set BPEJIT_SHARED_DATA to it, or name a file")
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    raise MissingInputError(f"the optional data folder has no {name}")


def script_of(document: str) -> str | None:
    """`japanese` if at least a twentieth of the characters is kana, `chinese` if there is none and half are Han."""
    kana = sum("\u3041" <= character <= "\u30ff" for character in document)
    han = sum("\u4e00" <= character <= "\u9fff" for character in document)
    if kana * 20 >= max(len(document), 1):
        return "japanese"
    return "chinese" if not kana and han * 2 >= max(len(document), 1) else None


class Corpora:
    """Makes texts in a folder, each once."""

    def __init__(self, folder: Path, given: dict[str, Path] | None = None, *, limit: int | None = None) -> None:
        self.folder = folder
        self.given = given or {}
        self.limit = limit
        self._made: dict[str, Corpus] = {}

    def names(self) -> tuple[str, ...]:
        """The texts that a run takes if none are named."""
        if self.given:
            return tuple(self.given)
        return ("english", "code", "chinese", "japanese") if data_folder() else OWN

    def get(self, name: str) -> Corpus:
        if name not in self._made:
            data, made = self._read(name)
            if self.limit and len(data) > self.limit:
                data, made = cut(data, self.limit), f"{made}, the first {self.limit:,} bytes"
            self._made[name] = self._write(name, data, made)
        return self._made[name]

    def _read(self, name: str) -> tuple[bytes, str]:
        if name in self.given:
            path = self.given[name]
            if not path.is_file():
                raise MissingInputError(f"there is no file for the corpus {name!r}")
            data = path.read_bytes()
            return (gzip.decompress(data) if path.suffix == ".gz" else data), "a given file"
        if name in OPTIONAL and data_folder():
            return read_optional(f"corpora/{name}.txt"), "optional data folder"
        if name in BY_SCRIPT:
            documents = read_optional("corpora/multilingual.txt").decode().split(END_OF_TEXT)
            picked = [document for document in documents if script_of(document) == name]
            return (END_OF_TEXT.join(picked) + END_OF_TEXT).encode(), "optional data folder, multilingual by script"
        if name in OWN:
            return (ROOT / "tests" / "data" / f"{name}.txt").read_bytes(), "tests/data"
        raise MissingInputError(
            f"there is no corpus {name!r} here; expected one of {', '.join(OPTIONAL + BY_SCRIPT)} of the optional data folder, "
            f"{', '.join(OWN)} of tests/data, or --corpus {name}=FILE"
        )

    def _write(self, name: str, data: bytes, made: str) -> Corpus:
        path = self.folder / f"{name}.txt"
        path.write_bytes(data)
        return Corpus(name, path, len(data), hashlib.sha256(data).hexdigest(), made)

    def repeated(self, name: str, n_bytes: int) -> Corpus:
        """A text again and again, until it has so many bytes."""
        one = self.get(name)
        times = max(1, -(-n_bytes // one.n_bytes))
        data = one.read() * times
        return self._write(f"{name}-{len(data) // 1_000_000}MB", data, f"{one.made}; {name} {times} times")

    def mixed(self, sizes: list[int], named: list[str] | None = None) -> list[Corpus]:
        """Texts of the given sizes, each the beginning of the next, made of all there is, or of the named ones.

        All texts are cut into blocks of about 64 KB at document or line ends, and the blocks are dealt out in proportion,
        so that the beginning has the same mixture as the whole. If there is less than the largest size, the whole is
        repeated, and the description says so.
        """
        names = named or tuple(self.given) or (OPTIONAL if data_folder() else OWN)
        parts = [(name, self.get(name).read()) for name in names]
        made = "blocks of " + ", ".join(names)
        if not (named or self.given) and sum(len(data) for _, data in parts) < max(sizes):
            library = standard_library()
            parts.append(("library", library))
            made += f", and {len(library) / 1e6:.0f} MB of Python's standard library"
        dealt = []
        for name, data in parts:
            blocks = list(blocks_of(data))
            dealt += [((number + 0.5) / len(blocks), name, block) for number, block in enumerate(blocks)]
        distinct = b"".join(block for _, _, block in sorted(dealt))
        made += f", dealt out in proportion; {len(distinct) / 1e6:.0f} MB of distinct text"
        corpora = []
        for size in sizes:
            data = cut(distinct * -(-size // len(distinct)), size)
            note = f"{made}, repeated" if size > len(distinct) else made
            corpora.append(self._write(f"mixed-{label(size)}", data, note))
        return corpora


def label(size: int) -> str:
    return f"{size / 1e6:g}MB" if size >= 1_000_000 else f"{size / 1e3:g}KB"


def standard_library() -> bytes:
    """The sources of the Python that runs this, without its installed packages: different from machine to machine."""
    folder = Path(os.__file__).parent
    files = [path for path in sorted(folder.rglob("*.py")) if "site-packages" not in path.parts]
    texts = []
    for path in files:
        try:
            texts.append(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            continue  # test files in other encodings
    return END_OF_TEXT.join(texts).encode()


def blocks_of(data: bytes, size: int = 1 << 16):
    start = 0
    while start < len(data):
        end = cut_place(data, start + size)
        if end <= start:
            end = len(data)
        yield data[start:end]
        start = end


def cut_place(data: bytes, place: int) -> int:
    """The end of a document at or before `place`, or else of a line, or else of a character."""
    if place >= len(data):
        return len(data)
    floor = max(0, place - (1 << 16))
    found = data.rfind(SEPARATOR, floor, place)
    if found > floor:
        return found + len(SEPARATOR)
    found = data.rfind(b"\n", floor, place)
    if found > floor:
        return found + 1
    while place and data[place] & 0xC0 == 0x80:
        place -= 1
    return place


def cut(data: bytes, size: int) -> bytes:
    return data[: cut_place(data, size)]


def documents_of(data: bytes) -> list[str]:
    """The documents as strings, for tools that take them one by one; the separator is left out."""
    return [document for document in data.decode().split(END_OF_TEXT) if document]
