"""The interface of tokenizer formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from bpejit.errors import TokenizerFormatError
from bpejit.formats.compressed import GZIP_SUFFIX, without_gz
from bpejit.model import Model
from bpejit.splitting.presets import Pattern
from bpejit.storage.files import StrPath
from bpejit.storage.outputs import check_outputs


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
            The parsed file if it is a JSON object, and None otherwise.
        """
        return False

    @abstractmethod
    def read(
        self,
        path: Path,
        *,
        pattern: Pattern | None = None,
        special_tokens: Mapping[str, int] | Iterable[str] | None = None,
        unicode: str | None = None,
    ) -> Model:
        """Return the model of a file or folder; the parameters and errors are the same as for `bpejit.load`.

        A reader takes everything from the files and guesses nothing. It raises TokenizerFormatError, with the file and the
        position, for anything that bpejit cannot reproduce exactly. `pattern` and `special_tokens` are None if the format is
        `complete`.
        """

    def read_folder(
        self,
        path: Path,
        *,
        pattern: Pattern | None = None,
        special_tokens: Mapping[str, int] | Iterable[str] | None = None,
        unicode: str | None = None,
    ) -> Model:
        """Return the model of a path that was found in a folder, with the tokens and settings in other files of the folder."""
        return self.read(path, pattern=pattern, special_tokens=special_tokens, unicode=unicode)

    # ---- writing

    def outputs(self, path: StrPath) -> list[Path]:
        """Return the files that `write` creates, replaces or removes."""
        return [Path(path)]

    def check_write(self, path: StrPath, *, inputs: Iterable[StrPath] = (), overwrite: bool = False) -> None:
        """Raise OutputError if the files cannot be written, or would replace files that must not be replaced."""
        check_outputs(self.outputs(path), inputs=inputs, overwrite=overwrite)

    def write(self, model: Model, path: StrPath, *, legacy_merges: bool = False, overwrite: bool = False) -> str | None:  # noqa: ARG002
        """Write a model; the parameters, result and errors are the same as for `Tokenizer.save`.

        A writer raises TokenizerFormatError, with the reason, if the tools that read the format would give other ids. It
        writes through `bpejit.storage.files`.
        """
        raise TokenizerFormatError(f"tokenizers cannot be written in the format {self.name}; choose another format")
