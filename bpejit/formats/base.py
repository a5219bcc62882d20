"""Formats of tokenizer files: their interface, and the registered ones. Importing this module imports no format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from bpejit import arguments
from bpejit.errors import TokenizerFormatError
from bpejit.options import Registry
from bpejit.storage.files import StrPath

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from bpejit.model import Model
    from bpejit.splitting.presets import Pattern

GZIP_SUFFIX = ".gz"


def without_gz(path: StrPath) -> Path:
    """Return a path without the suffix `.gz`."""
    file = Path(path)
    return file.with_suffix("") if file.suffix == GZIP_SUFFIX else file


class Given(TypedDict, total=False):
    """What a caller gives beside the files (see `bpejit.load`). A missing value is None."""

    pattern: Pattern | None
    special_tokens: Mapping[str, int] | Iterable[str] | None
    unicode: str | None


class TokenizerFormat(ABC):
    """A format of tokenizer files.

    Attributes
    ----------
    name : str
        The name under which it is registered.
    expected : str
        Noun phrase for messages that list the formats, such as "a rank file (`NAME.tiktoken`)".
    file_names : tuple of str
        The files of the format that have a fixed name. The first is the one that `read` takes.
    suffixes : tuple of str
        The suffixes of files with any name.
    complete : bool
        True if the files contain the split pattern and the special tokens. They cannot be passed as options then.
    exclusive : bool
        True if other tokenizer files in the same folder belong to this format.
    writable : bool
        True if `write` is implemented.
    has_tokenizer_json : bool
        True if `write` creates a `tokenizer.json`, so that `legacy_merges` has a meaning.
    """

    name: ClassVar[str]
    expected: ClassVar[str]
    file_names: ClassVar[tuple[str, ...]] = ()
    suffixes: ClassVar[tuple[str, ...]] = ()
    complete: ClassVar[bool] = True
    exclusive: ClassVar[bool] = False
    writable: ClassVar[bool] = False
    has_tokenizer_json: ClassVar[bool] = False

    # ---- reading

    def find(self, folder: Path) -> list[Path]:
        """Return the tokenizers of this format in a folder, as paths for `read`."""
        fixed = [folder / name for name in self.file_names[:1] if (folder / name).exists()]
        patterns = [f"*{suffix}{gz}" for gz in ("", GZIP_SUFFIX) for suffix in self.suffixes]
        return [*fixed, *(file for pattern in patterns for file in sorted(folder.glob(pattern)))]

    def locate(self, file: Path) -> Path | None:
        """Return the path for `read` if the name of a file is one of this format, and None otherwise."""
        name = without_gz(file).name
        return file if name in self.file_names[:1] or name.endswith(self.suffixes) else None

    def recognizes(self, head: bytes, content: Any) -> bool:  # noqa: ARG002
        """Return True if a file whose name is of no known format is in this format.

        Parameters
        ----------
        head : bytes
            The first `HEAD_BYTES` of the file, decompressed.
        content
            None at first, and then the parsed file if it is a JSON object.
        """
        return False

    @abstractmethod
    def read(self, path: Path, **given: Unpack[Given]) -> Model:
        """Return the model of a file or folder; the parameters and errors are the same as for `bpejit.load`.

        A reader takes everything from the files and guesses nothing. It raises TokenizerFormatError, with the file and the
        position, for anything that bpejit cannot reproduce exactly. `pattern` and `special_tokens` are None if the format is
        `complete`.
        """

    def read_folder(self, path: Path, **given: Unpack[Given]) -> Model:
        """Return the model of a path that was found in a folder, with the tokens and settings in other files of the folder."""
        return self.read(path, **given)

    # ---- writing

    def outputs(self, path: StrPath) -> list[Path]:
        """Return the files that `write` creates, replaces or removes."""
        return [Path(path)]

    def check_write(self, path: StrPath, *, inputs: Iterable[StrPath] = (), overwrite: bool = False) -> None:
        """Raise OutputError if the files cannot be written, or would replace files that must not be replaced."""
        from bpejit.storage.outputs import check_outputs

        check_outputs(self.outputs(path), inputs=inputs, overwrite=overwrite)

    def write(self, model: Model, path: StrPath, *, legacy_merges: bool = False, overwrite: bool = False) -> str | None:  # noqa: ARG002
        """Write a model; the parameters, result and errors are the same as for `Tokenizer.save`.

        A writer raises TokenizerFormatError, with the reason, if the tools that read the format would give other ids. It
        writes through `bpejit.storage.files`.
        """
        raise TokenizerFormatError(f"tokenizers cannot be written in the format {self.name}; choose another format")


_formats: Registry[TokenizerFormat] = Registry(
    "tokenizer format",
    {
        "bpejit": ("bpejit.formats.folder_writing:FolderFormat", "bpejit's folder"),
        "hf": ("bpejit.formats.folder_writing:HuggingFaceFormat", "Hugging Face's tokenizer.json"),
        "tiktoken": ("bpejit.formats.tiktoken_ranks:TiktokenFormat", "tiktoken's rank files"),
        "tekken": ("bpejit.formats.tekken:TekkenFormat", "Mistral's tekken.json"),
        "clip": ("bpejit.formats.clip:ClipFormat", "CLIP's bpe_simple_vocab_16e6.txt"),
        "sentencepiece": ("bpejit.formats.sentencepiece:SentencePieceFormat", "SentencePiece's models"),
        "gpt2": ("bpejit.formats.gpt2:Gpt2Format", "GPT-2's vocab.json and merges.txt"),
    },
    error=TokenizerFormatError,
)

register, unregister = _formats.register, _formats.unregister
"""Add and remove a format (see `Registry`), which `bpejit.load`, `Tokenizer.save` and the commands then support: a class or
function without parameters that returns a `bpejit.formats.base.TokenizerFormat`.
"""

load_format = _formats.load

_SUFFIXES = {".tiktoken": "tiktoken"}
"""Suffixes of files of one format only, which is in front of all that are registered later."""


def name_by_suffix(suffix: str) -> str | None:
    """Return the name of the format of all files with a suffix, or None. No format is imported: that takes 15 ms."""
    name = _SUFFIXES.get(suffix)
    return name if name in _formats.names() else None


def all_formats() -> Iterator[TokenizerFormat]:
    """Yield all formats, in the order in which they are tried. Each is imported when it is reached."""
    return map(_formats.load, _formats.names())


def writable_names() -> tuple[str, ...]:
    """Return the names of the formats that can be written."""
    return tuple(found.name for found in all_formats() if found.writable)


def load_writable(name: Any) -> TokenizerFormat:
    """Return the format with a name, which can be written. The others are not imported: that takes 15 to 30 ms.

    Raises
    ------
    TokenizerFormatError
        If there is none with this name, or it cannot be written.
    """
    found = load_format(name) if isinstance(name, str) and name in _formats.names() else None
    if found is None or not found.writable:
        found = load_format(arguments.choice("format", name, writable_names(), error=TokenizerFormatError))
    return found
