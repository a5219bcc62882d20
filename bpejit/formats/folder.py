"""The format of the folder in which bpejit saves a tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bpejit.errors import TokenizerFormatError
from bpejit.formats.base import TokenizerFormat
from bpejit.formats.compressed import without_gz
from bpejit.formats.folder_layout import OWN_FILE, PRIVATE_FILE, PUBLIC_FILES, TOKENIZER_FILE
from bpejit.formats.folder_reading import load_folder
from bpejit.formats.token_bytes import TOKEN_BYTES_FILE
from bpejit.model import Model
from bpejit.splitting.presets import Pattern
from bpejit.storage.exchange import recover_description
from bpejit.storage.files import StrPath


class FolderFormat(TokenizerFormat):
    """bpejit's own folder, which other tools read as a Hugging Face tokenizer where that gives equal ids."""

    name = "bpejit"
    expected = "a folder that bpejit wrote"
    file_names = (OWN_FILE, *PUBLIC_FILES, PRIVATE_FILE, TOKEN_BYTES_FILE)
    exclusive = True
    writable = True
    has_tokenizer_json = True

    def find(self, folder: Path) -> list[Path]:
        """Return the folder itself if bpejit wrote it."""
        _recover(folder)
        return [folder] if (folder / OWN_FILE).exists() else []

    def locate(self, file: Path) -> Path | None:
        """Return the folder of a file that bpejit wrote."""
        _recover(file.parent)
        named = without_gz(file).name in (OWN_FILE, TOKENIZER_FILE, PRIVATE_FILE)
        return file.parent if named and (file.parent / OWN_FILE).exists() else None

    def read(
        self,
        path: Path,
        *,
        pattern: Pattern | None = None,  # noqa: ARG002
        special_tokens: Mapping[str, int] | Iterable[str] | None = None,  # noqa: ARG002
        unicode: str | None = None,
    ) -> Model:
        """Return the model in a folder."""
        return load_folder(path, unicode=unicode)

    def check_write(self, path: StrPath, *, inputs: Iterable[StrPath] = (), overwrite: bool = False) -> None:
        """Raise OutputError if the folder cannot be written."""
        from bpejit.formats.folder_writing import check_folder  # not at the top: reading does not need it

        check_folder(path, inputs=inputs, overwrite=overwrite)

    def write(self, model: Model, path: StrPath, *, legacy_merges: bool = False, overwrite: bool = False) -> str | None:
        """Write a folder; return why other tools cannot read it, or None if they can."""
        from bpejit.formats.folder_writing import save_folder

        return save_folder(model, path, legacy_merges=legacy_merges, overwrite=overwrite)


def _recover(folder: Path) -> None:
    """Complete or undo what an interrupted run left in a folder."""
    if not (folder / OWN_FILE).exists():
        recover_description(folder / OWN_FILE, error=TokenizerFormatError)
