"""Problems described in a TOML file: its keys, the inputs of its splits, and its class labels."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from bpejit.errors import OptionError, shorten
from bpejit.extras import import_extra
from bpejit.storage.files import StrPath, is_remote, read_file
from bpejit.t2t.datagen.problem_declaration import FILE_NAMES, VOCAB_TYPES, Problem
from bpejit.t2t.datagen.sample_reading import LABEL, LINES, RECORDS, TABBED, Layout
from bpejit.t2t.text_encoders import vocabulary_lines

TEXT2TEXT, TEXT2SELF, TEXT2CLASS = "text2text", "text2self", "text2class"

_FEATURES = {TEXT2TEXT: ("inputs", "targets"), TEXT2SELF: ("targets",), TEXT2CLASS: ("inputs", "label")}

_KEYS: dict[str, Any] = {
    "name": str,
    "kind": str,
    "vocab_type": str,
    "vocab_filename": str,
    "inputs_vocab_filename": str,
    "targets_vocab_filename": str,
    "approx_vocab_size": int,
    "additional_reserved_tokens": list,
    "oov_token": str,
    "max_subtoken_length": int,
    "file_byte_budget": int | float,
    "has_shared_vocab": bool,
    "packed_length": int,
    "packed_spacing": int,
    "inputs_prefix": str,
    "targets_prefix": str,
    "already_shuffled": bool,
    "class_labels": list | str,
    "dataset_splits": list,
}

_SPLIT_KEYS: dict[str, Any] = {
    "split": str,
    "shards": int,
    "archive": str,
    "inputs": str | list,
    "targets": str | list,
    "label": str | list,
    "tabbed": str | list,
    "records": str | list,
    "inputs_field": str,
    "targets_field": str,
    "label_field": str,
}


_CHOICES = {"kind": tuple(_FEATURES), "vocab_type": VOCAB_TYPES, "split": tuple(FILE_NAMES)}

_LEAST = {"approx_vocab_size": 1, "packed_length": 1, "packed_spacing": 0, "file_byte_budget": 1, "shards": 1}


class FileProblem(Problem):
    """A problem whose samples are in files.

    Parameters
    ----------
    settings : dict
        The content of a TOML file.
    folder : path
        Where relative paths begin.
    where : str
        The file, for messages.

    Raises
    ------
    OptionError
    """

    def __init__(self, settings: Mapping[str, Any], folder: StrPath = ".", where: str = "problem") -> None:
        self._settings = _checked_keys(settings, _KEYS, where)
        self._folder = Path(folder)
        self._where = where
        self.kind: str = self._settings.get("kind", TEXT2TEXT)
        self.has_inputs = self.kind != TEXT2SELF
        vars(self).update((key, value) for key, value in self._settings.items() if key in Problem.__annotations__)
        if self.packed_length is not None and self.kind == TEXT2CLASS:
            raise OptionError(f"{where}: packed_length is {self.packed_length}; expected none with class labels: leave it out")
        self._inputs: dict[str, Layout | None] = {}
        self.dataset_splits = self._read_splits()

    @property
    def name(self) -> str:
        """The name of the problem."""
        return str(self._settings.get("name", Path(self._where).stem))

    @property
    def is_generate_per_split(self) -> bool:
        """Whether each split has inputs of its own."""
        return len(self._inputs) == 1 or None not in self._inputs.values()

    @property
    def text_features(self) -> tuple[str, ...]:
        """The features of a sample that are texts and become ids."""
        return tuple(name for name in _FEATURES[self.kind] if name != LABEL)

    def vocab_filename_of(self, feature: str) -> str:
        """Return the name of the vocabulary of a feature; that of the shared one for an empty string."""
        key = f"{feature}_vocab_filename" if feature else "vocab_filename"
        return str(self._settings.get(key) or super().vocab_filename_of(feature))

    def inputs_of(self, split: str) -> Layout | None:
        """Return the inputs of a split, or None if the samples of another one are divided."""
        return self._inputs[split]

    def _read_splits(self) -> list[dict[str, Any]]:
        given = self._settings.get("dataset_splits")
        if not given or not all(isinstance(one, dict) for one in given):
            raise OptionError(
                f"{self._where}: there are no splits; expected a table `[[dataset_splits]]` for each, with `split` and its "
                "inputs: add one"
            )
        splits = []
        for number, one in enumerate(given, start=1):
            where = f"{self._where}, split {number}"
            one = _checked_keys(one, _SPLIT_KEYS, where)
            name = one.get("split", "train")
            splits.append({"split": name, "shards": one.get("shards", 100 if name == "train" else 1)})
            self._inputs[name] = self._read_inputs(one, where)
        names = [FILE_NAMES[one["split"]] for one in splits]
        if len(set(names)) < len(names):
            raise OptionError(
                f"{self._where}: a split is listed twice; expected train, eval and test once each: remove one, or list its "
                "inputs in the other"
            )
        without = [name for name, inputs in self._inputs.items() if inputs is None]
        if splits[0]["split"] in without or 0 < len(without) < len(splits) - 1:
            raise OptionError(
                f"{self._where}: the split {without[0]} has no inputs; expected inputs in each split, or only in the first "
                "one, whose samples are then divided among the shards of all splits: add them"
            )
        return splits

    def _read_inputs(self, one: Mapping[str, Any], where: str) -> Layout | None:
        names = _FEATURES[self.kind]
        fields = [f"{name}_field" for name in names]
        known = fields if "records" in one else []
        wrong = [key for key in one if key.endswith("_field") and key not in known]
        if wrong:
            raise OptionError(
                f"{where}: it has `{wrong[0]}`; expected {' and '.join(f'`{field}`' for field in fields)}, together with "
                f"`records`, for the kind {self.kind}: correct it"
            )
        forms = [key for key in (*_FEATURES[TEXT2TEXT], "label", "tabbed", "records") if key in one]
        if not forms:
            return None
        layout = None
        if forms == ["tabbed"] and len(names) > 1:
            layout = Layout(names, TABBED)
        elif forms == ["records"]:
            default = "text" if len(names) == 1 else None
            layout = Layout(names, RECORDS, tuple(one.get(f"{name}_field", default or name) for name in names))
        elif sorted(forms) == sorted(names):
            layout, forms = Layout(names, LINES), list(names)
        if layout is not None:
            return replace(layout, paths=tuple(self._paths(one[form], one.get("archive")) for form in forms))
        expected = " and ".join(f"`{name}`" for name in names)
        others = "`records`" if len(names) == 1 else "`tabbed`, or `records`"
        raise OptionError(
            f"{where}: it has {', '.join(f'`{form}`' for form in forms)}; expected {expected}, or {others}, for the kind "
            f"{self.kind}: name the inputs"
        )

    def _paths(self, given: str | list[str], archive: str | None) -> list[str]:
        names = [given] if isinstance(given, str) else given
        if archive is not None:
            outer = archive if is_remote(archive) else os.path.abspath(self._folder / archive)  # noqa: PTH100
            return [f"tar://{name}::{outer}" for name in names]
        return [name if is_remote(name) else str(self._folder / name) for name in names]

    def class_labels(self, data_dir: StrPath) -> list[str] | None:  # noqa: ARG002
        """Return the labels in the order of their numbers."""
        if self.kind != TEXT2CLASS:
            return None
        found = self._settings.get("class_labels")
        if isinstance(found, str):
            lines = vocabulary_lines("class_labels", self._folder / found, "list of class labels")
            found = [label.strip() for label in lines if label.strip()]
        if not found or not all(isinstance(label, str) for label in found):
            raise OptionError(
                f"{self._where}: class_labels is {'missing' if found is None else shorten(found)}; expected a list of labels, "
                "or a file with one in each line: add them"
            )
        repeated = next((label for label, count in Counter(found).items() if count > 1), None)
        if repeated is not None:
            raise OptionError(
                f"{self._where}: class_labels has {shorten(repeated)} twice; expected different labels, since their numbers "
                "are the targets: remove one"
            )
        return list(found)


_KINDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", list: "a list of strings"}


def _checked_keys(given: Mapping[str, Any], known: Mapping[str, Any], where: str) -> dict[str, Any]:
    for key, value in given.items():
        if key not in known:
            raise OptionError(f"{where}: it has the key `{shorten(key)[1:-1]}`; expected {', '.join(known)}: correct it")
        right = isinstance(value, known[key]) and (not isinstance(value, bool) or known[key] is bool)
        if right and isinstance(value, list) and key != "dataset_splits":
            right = bool(value) and all(isinstance(item, str) for item in value)
        expected = ""
        if not right:
            expected = " or ".join(_KINDS[kind] for kind in get_args(known[key]) or [known[key]])
        elif value not in _CHOICES.get(key, [value]):
            expected = ", ".join(_CHOICES[key])
        elif key in _LEAST and value < _LEAST[key]:
            expected = f"{_LEAST[key]} or more"
        if expected:
            raise OptionError(f"{where}: {key} is {shorten(value)}; expected {expected}: correct it")
    return dict(given)


def read_settings(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    data = read_file(path, error=OptionError, what="problem")
    if sys.version_info >= (3, 11):
        import tomllib as toml
    else:
        toml = import_extra("tomli", f"the problem `{path}`", extra="t2t", error=OptionError)
    try:
        found: dict[str, Any] = toml.loads(data.decode("utf-8-sig"))
    except (toml.TOMLDecodeError, UnicodeDecodeError) as cause:
        raise OptionError(f"`{path}` is not valid TOML: {cause}; expected the description of a problem: correct it") from cause
    return found
