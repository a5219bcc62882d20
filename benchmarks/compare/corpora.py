"""Texts from tests/data, from the optional data folder, or from any file.

A text is unpacked into a temporary folder, so that every tool reads the same plain file. Results identify a text by name,
size and SHA-256, not by path.
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
"""Documents of `multilingual`, selected by script."""

LARGE = ("chinese-large", "japanese-large")
"""Files large/LANGUAGE.txt.zst of the optional data folder."""

WRITTEN = {name: ROOT / ".bench" / f"{name}.txt" for name in ("english-large", "code-large")}
"""The texts that `python -m benchmarks.large_texts` writes."""

OWN = ("prose", "code", "cjk")
"""Files NAME.txt of tests/data."""


class MissingInputError(Exception):
    """An input is not available; the message says how to provide it."""


@dataclass(frozen=True)
class Corpus:
    """A text in a file; `made` describes its origin."""

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
    """Return the optional folder of larger corpora and published vocabularies, or None."""
    named = os.environ.get("BPEJIT_SHARED_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None


def read_optional(name: str) -> bytes:
    """Return the unpacked bytes of a file of the optional folder."""
    folder = data_folder()
    if folder is None:
        raise MissingInputError(f"{name} is in the optional data folder: set BPEJIT_SHARED_DATA to it, or name a file")
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    raise MissingInputError(f"the optional data folder has no {name}")


def script_of(document: str) -> str | None:
    """Return `japanese` if at least 5% of the characters are kana, `chinese` if none are and half are Han, or None."""
    kana = sum("\u3041" <= character <= "\u30ff" for character in document)
    han = sum("\u4e00" <= character <= "\u9fff" for character in document)
    if kana * 20 >= max(len(document), 1):
        return "japanese"
    return "chinese" if not kana and han * 2 >= max(len(document), 1) else None


def read_large(language: str) -> bytes:
    """Return the bytes of large/LANGUAGE.txt.zst."""
    folder = data_folder()
    path = folder and folder / "large" / f"{language}.txt.zst"
    if path is None or not path.is_file():
        raise MissingInputError(f"{language}-large is large/{language}.txt.zst of the optional data folder, which is absent")
    try:
        import zstandard
    except ImportError as error:
        raise MissingInputError(f"{language}-large needs the zstandard package: pip install zstandard") from error
    with path.open("rb") as file:
        return zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file).read()


class Corpora:
    """Create texts in a folder, each once."""

    def __init__(self, folder: Path, given: dict[str, Path] | None = None, *, limit: int | None = None) -> None:
        self.folder = folder
        self.given = given or {}
        self.limit = limit
        self._made: dict[str, Corpus] = {}

    def names(self) -> tuple[str, ...]:
        """Return the default texts of a run."""
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
        if name in LARGE:
            return read_large(name.partition("-")[0]), "optional data folder"
        if name in WRITTEN:
            path, kind = WRITTEN[name], name.partition("-")[0]
            if not path.is_file():
                raise MissingInputError(f"{name} is absent: python -m benchmarks.large_texts {kind} .bench/{name}.txt")
            return path.read_bytes(), f"{'documentation' if kind == 'english' else 'code'} of Python packages"
        if name in OWN:
            return (ROOT / "tests" / "data" / f"{name}.txt").read_bytes(), "tests/data"
        optional = ", ".join((*OPTIONAL, *BY_SCRIPT, *LARGE))
        raise MissingInputError(
            f"there is no corpus {name!r}; expected one of {optional} of the optional data folder, "
            f"{', '.join(OWN)} of tests/data, {', '.join(WRITTEN)}, or --corpus {name}=FILE"
        )

    def _write(self, file: str, data: bytes, made: str, name: str | None = None) -> Corpus:
        path = self.folder / f"{file}.txt"
        path.write_bytes(data)
        return Corpus(name or file, path, len(data), hashlib.sha256(data).hexdigest(), made)

    def prefix(self, name: str, n_bytes: int) -> Corpus:
        """Return the first `n_bytes` of a text, or all of it if it is shorter."""
        whole = self.get(name)
        if whole.n_bytes <= n_bytes:
            return whole
        made = f"{whole.made}, the first {n_bytes:,} bytes"
        return self._write(f"{name}-{label(n_bytes)}", cut(whole.read(), n_bytes), made, name)

    def repeated(self, name: str, n_bytes: int) -> Corpus:
        """Return a text repeated until it has at least `n_bytes`."""
        one = self.get(name)
        times = max(1, -(-n_bytes // one.n_bytes))
        data = one.read() * times
        return self._write(f"{name}-{label(len(data))}", data, f"{one.made}, {times} times", name)

    def mixed(self, sizes: list[int], named: list[str] | None = None) -> list[Corpus]:
        """Return mixed texts of the given sizes, each a prefix of the next.

        The texts are cut into blocks of about 64 KB at document or line ends and interleaved in proportion to their sizes,
        so that every prefix has the same mixture. If there is too little text it is repeated, and the description says so.
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
        made += f", interleaved; {len(distinct) / 1e6:.0f} MB of distinct text"
        corpora = []
        for size in sizes:
            data = cut(distinct * -(-size // len(distinct)), size)
            note = f"{made}, repeated" if size > len(distinct) else made
            corpora.append(self._write(f"mixed-{label(size)}", data, note))
        return corpora


def label(size: int) -> str:
    return f"{size / 1e6:g}MB" if size >= 1_000_000 else f"{size / 1e3:g}KB"


def standard_library() -> bytes:
    """Return the sources of the running Python's standard library, which differ between machines."""
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
        end = cut_position(data, start + size)
        if end <= start:
            end = len(data)
        yield data[start:end]
        start = end


def cut_position(data: bytes, position: int) -> int:
    """Return the last end of a document, or else of a line, or else of a character, at or before `position`."""
    if position >= len(data):
        return len(data)
    floor = max(0, position - (1 << 16))
    found = data.rfind(SEPARATOR, floor, position)
    if found > floor:
        return found + len(SEPARATOR)
    found = data.rfind(b"\n", floor, position)
    if found > floor:
        return found + 1
    while position and data[position] & 0xC0 == 0x80:
        position -= 1
    return position


def cut(data: bytes, size: int) -> bytes:
    return data[: cut_position(data, size)]


def documents_of(data: bytes) -> list[str]:
    """Return the documents as strings, without the separators."""
    return [document for document in data.decode().split(END_OF_TEXT) if document]
