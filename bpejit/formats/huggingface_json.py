"""The format of Hugging Face's `tokenizer.json`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bpejit.formats.base import TokenizerFormat
from bpejit.formats.folder_layout import TOKENIZER_FILE
from bpejit.formats.folder_writing import check_folder, save_folder
from bpejit.formats.published import TOOLS_UNICODE
from bpejit.formats.readers import note
from bpejit.formats.settings_beside import SETTINGS_FILES
from bpejit.model import Model
from bpejit.splitting.presets import Pattern
from bpejit.storage.files import StrPath

_logger = logging.getLogger("bpejit.formats")


class HuggingFaceFormat(TokenizerFormat):
    """Hugging Face's `tokenizer.json` with `tokenizer_config.json`; it is written as part of a folder of bpejit."""

    name = "hf"
    expected = f"Hugging Face's `{TOKENIZER_FILE}`"
    file_names = (TOKENIZER_FILE, *SETTINGS_FILES)
    writable = True
    has_tokenizer_json = True

    def recognizes(self, head: bytes, content: Any) -> bool:  # noqa: ARG002
        """Return True for an object with a model."""
        return isinstance(content, dict) and isinstance(content.get("model"), dict)

    def read(
        self,
        path: Path,
        *,
        pattern: Pattern | None = None,  # noqa: ARG002
        special_tokens: Mapping[str, int] | Iterable[str] | None = None,  # noqa: ARG002
        unicode: str | None = None,
    ) -> Model:
        """Return the model in a file."""
        from bpejit.formats.huggingface_reading import read_tokenizer_json  # not at the top: it takes 30 ms

        return read_tokenizer_json(path, unicode=unicode or TOOLS_UNICODE)

    def read_folder(
        self,
        path: Path,
        *,
        pattern: Pattern | None = None,  # noqa: ARG002
        special_tokens: Mapping[str, int] | Iterable[str] | None = None,  # noqa: ARG002
        unicode: str | None = None,
    ) -> Model:
        """Return the model in a file with the tokens and settings beside it."""
        from bpejit.formats.huggingface_reading import read_tokenizer_json

        return read_tokenizer_json(path, unicode=unicode or TOOLS_UNICODE, with_settings=True)

    def check_write(self, path: StrPath, *, inputs: Iterable[StrPath] = (), overwrite: bool = False) -> None:
        """Raise OutputError if the folder cannot be written."""
        check_folder(path, inputs=inputs, overwrite=overwrite)

    def write(self, model: Model, path: StrPath, *, legacy_merges: bool = False, overwrite: bool = False) -> str | None:
        """Write a folder, or raise TokenizerFormatError if Hugging Face's tools would give other ids."""
        obstacle = save_folder(model, path, legacy_merges=legacy_merges, must_be_public=True, overwrite=overwrite)
        for found in filter(None, (note(model), model.config.left_out)):
            _logger.info("%s: %s", os.fspath(path), found)
        return obstacle
