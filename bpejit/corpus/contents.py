"""Recognize the format of an input, compressed data, binary data and byte-order marks by its name and its first bytes.

Only inputs that are recognized with near certainty are refused. Text in any encoding that contains ASCII passes, and so does
damaged text: bytes that are not valid UTF-8 are encoded as they are.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from bpejit import arguments
from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped
from bpejit.corpus.input_streams import HEAD_BYTES
from bpejit.corpus.reading_options import InputOptions
from bpejit.corpus.registry import TEXT, input_format_names, load_format
from bpejit.errors import CorpusError, warn_user
from bpejit.options import AUTO

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_UNPACK = "decompress it first, for example with `{} -dc`"
_EXTRACT = "extract the files first"
_CONVERT = "convert it to UTF-8 first, for example with `iconv -f {} -t UTF-8`"
_COLUMN = "write its text to a text file first"
_OTHER = "pass a text file"

# A signature of letters alone also requires bytes that text does not contain.
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (rb"\x1f\x8b\x08", "compressed with gzip", _UNPACK.format("gzip")),
    (rb"[\x50-\x5f]\x2a\x4d\x18|\x28\xb5\x2f\xfd", "compressed with zstd", _UNPACK.format("zstd")),
    (rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)", "compressed with bzip2", _UNPACK.format("bzip2")),
    (rb"\xfd7zXZ\x00", "compressed with xz", _UNPACK.format("xz")),
    (rb"\x5d\x00\x00.{2}(?:\xff{8}|.{5}\x00{3})", "compressed with lzma", _UNPACK.format("xz")),
    (rb"[\x02\x04]\x22\x4d\x18|\x02\x21\x4c\x18", "compressed with lz4", _UNPACK.format("lz4")),
    (rb"\xff\x06\x00\x00sNaPpY", "compressed with snappy", "decompress it first"),
    (rb"\x1f[\x9d\xa0]", "compressed with compress", _UNPACK.format("gzip")),
    (rb"PK(?:\x03\x04|\x05\x06|\x07\x08)", "a zip archive", _EXTRACT),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive", _EXTRACT),
    (rb"Rar!\x1a\x07", "a rar archive", _EXTRACT),
    (rb".{257}ustar[\x00 ]", "a tar archive", _EXTRACT),
    (rb"PAR[1E]", "a Parquet file", _COLUMN),
    (rb"ARROW1\x00\x00|\xff{4}.{2}\x00\x00\x10\x00", "an Arrow file", _COLUMN),
    (rb"FEA1.{0,60}\x00", "a Feather file", _COLUMN),
    (rb"ORC[\x00-\x08\x0e-\x1f]", "an ORC file", _COLUMN),
    (rb"Obj\x01", "an Avro file", _COLUMN),
    (rb"\x89HDF\r\n\x1a\n", "an HDF5 file", _COLUMN),
    (rb"SQLite format 3\x00", "an SQLite database", _COLUMN),
    (rb"\x93NUMPY[\x01-\x03]", "a NumPy array", "pass the text that it was created from"),
    (rb"\x80(?:[\x02\x03][\x00-\x7f]|[\x04\x05]\x95.{6}\x00\x00)", "a pickle", _COLUMN),
    (rb".{4,6}\x00{2,4}\{\"", "a safetensors file", _OTHER),
    (rb"GGUF[\x01-\x0f]\x00{3}", "a GGUF file", _OTHER),
    (rb"\xff\xfe\x00\x00|\x00\x00\xfe\xff", "text in UTF-32", _CONVERT.format("UTF-32")),
    (rb"\xff\xfe|\xfe\xff", "text in UTF-16", _CONVERT.format("UTF-16")),
    (rb"%PDF-[12]\.[0-9]", "a PDF file", "extract its text first, for example with `pdftotext`"),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document", "save its text as a text file first"),
    (rb"\x89PNG\r\n\x1a\n", "a PNG image", _OTHER),
    (rb"\xff\xd8\xff[\xc0-\xfe]", "a JPEG image", _OTHER),
    (rb"GIF8[79]a.{4}[\x00-\xff].?\x00", "a GIF image", _OTHER),
    (rb"RIFF.{4}(?:WAVE|AVI |WEBP)", "an audio, video or image file", _OTHER),
    (rb"OggS\x00|ID3[\x02-\x04]\x00|fLaC\x00|\x00\x00\x00.ftyp|\x1aE\xdf\xa3", "an audio or video file", _OTHER),
    (rb"\x7fELF[\x01\x02]", "a program", _OTHER),
    (rb"[\xce\xcf]\xfa\xed\xfe|\xfe\xed\xfa[\xce\xcf]|\xca\xfe\xba\xbe", "a program", _OTHER),
    (rb"MZ.{0,80}\x00{4}", "a program", _OTHER),
    (rb"\x00asm\x01\x00\x00\x00", "a WebAssembly module", _OTHER),
    (rb"!<arch>\n", "a library", _OTHER),
)

_WIDE: dict[tuple[bool, ...], str] = {
    (False, True, False, True): "UTF-16LE",
    (True, False, True, False): "UTF-16BE",
    (False, True, True, True): "UTF-32LE",
    (True, True, True, False): "UTF-32BE",
}
"""Encodings by which of four bytes are mostly zero in Latin text."""

_CONTROLS = bytes([*range(1, 8), *range(14, 27), *range(28, 32)])
"""Control characters, except NUL (a separator of records), white space, backspace, and escape (terminals and encodings)."""

_ANY = re.compile(b"|".join(magic for magic, _, _ in _MAGIC), re.DOTALL)
_EACH = re.compile(b"|".join(b"(?P<k%d>%b)" % (index, magic) for index, (magic, _, _) in enumerate(_MAGIC)), re.DOTALL)
"""Alternatives without groups are skipped by their first byte, which takes a third of the time for text."""


def has_controls(heads: bytes) -> bool:
    """Return True if text may contain NUL or control characters; False if it does not.

    This is a quick test for many inputs together, and escape counts as a control character here.

    Parameters
    ----------
    heads : bytes
        The first bytes of some inputs.
    """
    text = np.frombuffer(heads, np.uint8)
    # Differences wrap around, so the minimum tells whether there is a byte from 14 to 31.
    return text.size > 0 and bool(text.min() < 8 or np.subtract(text, 14).min() < 18)


def recognize_contents(head: bytes, *, clean: bool = False) -> tuple[str, str] | None:
    """Return the kind of an input that is not text, and how to convert it to text; None for text.

    Parameters
    ----------
    head : bytes
        The first `HEAD_BYTES` of the input, or all of it.
    clean : bool
        Whether they are known to contain neither NUL nor control characters.

    Examples
    --------
    >>> recognize_contents(bytes.fromhex("1f8b0800"))
    ('compressed with gzip', 'decompress it first, for example with `gzip -dc`')
    >>> recognize_contents("Größe".encode("latin-1"))
    """
    if _ANY.match(head) is not None:
        found = _EACH.match(head)
        if found is not None and found.lastgroup is not None:
            return _MAGIC[int(found.lastgroup[1:])][1:]
    if clean:
        return None
    return (_recognize_zeros(head) if b"\0" in head else None) or _recognize_controls(head)


def _recognize_zeros(head: bytes) -> tuple[str, str] | None:
    """Recognize UTF-16, UTF-32 and other binary data by the positions of NUL bytes."""
    n_zeros = head.count(0)
    if len(head) < 16 or n_zeros * 3 <= len(head):
        return None
    kind = _WIDE.get(tuple(2 * head[start::4].count(0) > len(head[start::4]) for start in range(4)))
    if kind is not None:
        return f"text in {kind} without a byte-order mark, or a file of numbers", _CONVERT.format(kind)
    return f"binary data ({100 * n_zeros // len(head)} % of its first bytes are NUL)", _OTHER


def _recognize_controls(head: bytes) -> tuple[str, str] | None:
    """Recognize binary data by control characters, such as token files, and random bytes.

    Text in shift encodings and EBCDIC has up to 15 % of control characters, but some byte is frequent in it, such as a space.
    """
    n_controls = len(head) - len(head.translate(None, _CONTROLS))
    if len(head) >= 128 and n_controls * 25 >= len(head) and not _is_utf8(head):
        most = np.bincount(np.frombuffer(head, np.uint8)).max()
        if most * 16 < len(head):
            return "binary data (its first bytes are nearly all equally frequent, as in random or encrypted data)", _OTHER
    if len(head) < 64 or n_controls * 5 <= len(head):
        return None
    return f"binary data ({100 * n_controls // len(head)} % of its first bytes are control characters)", _OTHER


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3  # the last character is incomplete
    return True


_COMPRESSED = re.compile(rb"(?P<gzip>\x1f\x8b\x08)|(?P<zstd>\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18)")
"""The first bytes of compressed inputs that are read. Those of zstd may begin with a frame of other data, as of pzstd."""

_COMPRESSED_SUFFIXES = (".gz", ".gzip", ".zst", ".zstd")

KEPT_BYTES = 1 << 25
"""Total size of the small files whose contents are kept in memory when they are examined, since opening 10,000 files a second
time takes as long as encoding them.
"""

KEPT_FILE = 1 << 16
"""Size up to which a file is read when it is examined, while the contents are kept or hashed."""


def inner_name(path: str) -> str:
    """Return the name of an input without the end that says that it is compressed, in lower case."""
    name = path.lower()
    for suffix in _COMPRESSED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


class Contents:
    """Checks the first bytes of inputs, and records which inputs have a byte-order mark.

    Parameters
    ----------
    **options
        The fields of `InputOptions`.

    Attributes
    ----------
    options : InputOptions
    marked : list of str
        The inputs opened so far that begin with a byte-order mark.
    skipped : Skipped
        The records without text that were found so far, if whoever reads the inputs adds them.
    sample : tuple of (int, int), optional
        The size in bytes and the seed of the sample of the corpus that is used.
    hashed : bool
        Whether files that are read completely when they are examined are hashed as well, for `bpejit.corpus.fingerprints`.
    """

    def __init__(self, **options: Any) -> None:
        self.options = InputOptions.checked(**options)
        self.marked: list[str] = []
        self.skipped: Skipped = NOTHING_SKIPPED
        self.sample: tuple[int, int] | None = None
        self.hashed = False
        self._n_kept = 0
        self._doubtful: dict[str, str] = {}
        self._left_out: list[str] = []
        self._warned = False
        self._formats = {name: load_format(name) for name in input_format_names() if name != TEXT}
        formats = self._formats.values()
        self._suffixes = tuple(suffix for one in formats for suffix in one.suffixes)
        likely = [suffix for one in formats for suffix in one.likely_suffixes]
        self._never_plain = (*self._suffixes, *_COMPRESSED_SUFFIXES, *likely)
        # The beginnings of inputs that may not be plain text; any if a format does not tell.
        starts = [(b"",) if one.starts is None or self.options.input_format != AUTO else one.starts for one in formats]
        self._starts = sum(starts, (BYTE_ORDER_MARK,))

    def choose_sample(self, max_bytes: int | None, seed: int) -> None:
        """Set `sample` to the size and the seed of a sample of the corpus, unless `max_bytes` is None."""
        seed = arguments.whole_number("seed", seed)
        if max_bytes is not None:
            self.sample = arguments.whole_number("max_bytes", max_bytes, least=1), seed

    def sampled_bytes(self, total: int | None) -> int | None:
        """Return the bytes of a corpus of `total` bytes that are used: those of the sample, if one is taken."""
        if self.sample is None:
            return total
        return self.sample[0] if total is None else min(total, self.sample[0])

    @property
    def head_bytes(self) -> int:
        """Number of bytes of a file to read when it is examined."""
        return KEPT_FILE if self.hashed or self._n_kept < KEPT_BYTES else HEAD_BYTES

    def keep(self, data: bytes) -> bytes | None:
        """Return the content of a small file if there is memory left for it."""
        self._n_kept += len(data)
        return data if self._n_kept <= KEPT_BYTES else None

    def compression(self, head: bytes) -> str | None:
        """Return how an input is compressed, `gzip` or `zstd`, if it is to be decompressed; otherwise None."""
        if self.options.input_format == TEXT:
            return None
        found = _COMPRESSED.match(head)
        return None if found is None else found.lastgroup

    def is_plain(self, path: str, head: bytes) -> bool:
        """Return True if an input is plain text without a byte-order mark; False if `recognize` has to decide.

        Parameters
        ----------
        path : str
        head : bytes
            Its first bytes, which are known to contain neither NUL nor control characters (see `has_controls`).
        """
        return (
            not head.lstrip().startswith(self._starts)
            and _ANY.match(head) is None
            and not path.lower().endswith(self._never_plain)
        )

    def _recognize_format(self, name: str, head: bytes) -> str:
        known = name.endswith(self._suffixes)  # a test for all: there may be 10,000 files of text
        for key, form in self._formats.items():
            if (known and name.endswith(form.suffixes)) or form.recognizes(name, head):
                return key
        return TEXT

    def recognize(self, path: str, head: bytes, *, clean: bool = False) -> tuple[str, int]:
        """Return the format of an input, and the number of bytes to skip at its start.

        Parameters
        ----------
        path : str
        head : bytes
            Its first bytes, decompressed.
        clean : bool
            Whether they are known to contain neither NUL nor control characters (see `has_controls`).

        Raises
        ------
        CorpusError
            If the input is recognized as something that is not read, and `input_format` is `auto`.
        """
        given = self.options.input_format
        name = inner_name(path)
        chosen = self._recognize_format(name, head) if given == AUTO else given
        is_text = chosen == TEXT or (chosen in self._formats and self._formats[chosen].is_text)
        found = recognize_contents(head, clean=clean) if given == AUTO and is_text else None
        if found is None and is_text and given != TEXT:
            for key, form in self._formats.items():
                found = found or form.refuses(name, head, chosen=chosen == key)
                if found is None and chosen == TEXT and form.resembles(name, head):
                    self._doubtful[path] = form.resemblance
        if found is not None:
            what, action = found
            source = "standard input" if path == "-" else f"the input `{path}`"
            expected = "JSON lines" if "JSON" in what else "text"
            raise CorpusError(
                f'{source} is {what}; expected {expected}: {action}, or pass `input_format="text"` to use its bytes as they are'
            )
        if chosen != TEXT or not head.startswith(BYTE_ORDER_MARK):
            return chosen, 0
        self.marked.append(path)
        return chosen, len(BYTE_ORDER_MARK) if self.options.strip_bom else 0

    def leave_out(self, paths: list[str]) -> None:
        """Record that some inputs, which were recognized already, are not read."""
        self._left_out += paths
        self.marked = [path for path in self.marked if path not in paths]
        self._doubtful = {path: why for path, why in self._doubtful.items() if path not in paths}

    def warn(self) -> None:
        """Warn of inputs that are left out, and once of those that were taken for text and resemble records."""
        if self._left_out:
            verbs = "describes records, and is" if len(self._left_out) == 1 else "describe records, and are"
            warn_user(f"{named_inputs(self._left_out)} {verbs} not read; give a file by its name to read it")
            self._left_out = []
        if self._doubtful and not self._warned:
            self._warned = True
            verb = "is" if len(self._doubtful) == 1 else "are"
            warn_user(
                f"{named_inputs(list(self._doubtful))} {verb} read as plain text, {next(iter(self._doubtful.values()))}; with "
                '`input_format="text"`, this message is left out'
            )


def named_inputs(paths: list[str]) -> str:
    """Return the names of some inputs for a message."""
    shown = ", ".join("standard input" if path == "-" else f"`{path}`" for path in paths[:3])
    return shown if len(paths) <= 3 else f"{shown} and {len(paths) - 3} more inputs"
