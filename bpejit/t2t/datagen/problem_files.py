"""Problems described in a TOML file, or by the name of a class in a Python module; and `bpejit.generate_data`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from bpejit import arguments
from bpejit.corpus.blocks import ChunkReader
from bpejit.corpus.reading_options import UNIT_BYTES
from bpejit.engines.work_options import AnyEngine, ProgressOption, Workers
from bpejit.errors import BpejitError, CorpusError, OptionError, shorten
from bpejit.extras import import_extra
from bpejit.jobs.job_options import check_job_options, describe_call
from bpejit.options import takes
from bpejit.storage.files import StrPath, read_error
from bpejit.storage.remote import is_remote
from bpejit.t2t.datagen.dataset_outputs import SHUFFLE_MEMORY
from bpejit.t2t.datagen.problem_declaration import FILE_NAMES, VOCAB_TYPES, Problem
from bpejit.t2t.datagen.problems import (
    GenerationReport,
    Text2ClassProblem,
    Text2TextProblem,
    generate,
)
from bpejit.t2t.datagen.sample_reading import LINES, RECORDS, TABBED, Layout
from bpejit.t2t.datagen.sample_sources import SampleChunker, SampleInputs, plan_inputs
from bpejit.t2t.record_formats.registry import DEFAULT_RECORD_FORMAT

if TYPE_CHECKING:
    from typing_extensions import Unpack

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


class FileProblem(Text2TextProblem):
    """A problem whose samples are in files.

    Parameters
    ----------
    settings : dict
        The content of a TOML file.
    folder : Path
        Where relative paths begin.
    where : str
        The file, for messages.
    """

    def __init__(self, settings: Mapping[str, Any], folder: Path, where: str) -> None:
        self._settings = _checked_keys(settings, _KEYS, where)
        self._folder = folder
        self._where = where
        kind = self._settings.get("kind", TEXT2TEXT)
        if kind not in _FEATURES:
            raise OptionError(f"{where}: kind is {shorten(kind)}; expected {', '.join(_FEATURES)}: correct it")
        self.kind: str = kind
        if self.vocab_type not in VOCAB_TYPES:
            raise OptionError(
                f"{where}: vocab_type is {shorten(self.vocab_type)}; expected {', '.join(VOCAB_TYPES)}: correct it"
            )
        for key, least in (("approx_vocab_size", 1), ("packed_length", 1), ("packed_spacing", 0), ("file_byte_budget", 1)):
            if self._settings.get(key, least) < least:
                raise OptionError(f"{where}: {key} is {self._settings[key]}; expected {least} or more: correct it")
        if self.packed_length is not None and kind == TEXT2CLASS:
            raise OptionError(f"{where}: packed_length is {self.packed_length}; expected none with class labels: leave it out")
        self._splits = self._read_splits()

    @property
    def name(self) -> str:
        """The name of the problem."""
        return str(self._settings.get("name", Path(self._where).stem))

    @property
    def has_inputs(self) -> bool:
        """Whether examples have inputs."""
        return self.kind != TEXT2SELF

    @property
    def dataset_splits(self) -> list[dict[str, Any]]:
        """The parts of the data set."""
        return [{"split": split["split"], "shards": split["shards"]} for split in self._splits]

    @property
    def is_generate_per_split(self) -> bool:
        """Whether each split has inputs of its own."""
        return len(self._splits) == 1 or self._splits[1]["inputs"] is not None

    def vocab_filename_of(self, feature: str) -> str:
        """Return the name of the vocabulary of a feature; that of the shared one for an empty string."""
        key = f"{feature}_vocab_filename" if feature else "vocab_filename"
        return str(self._settings.get(key) or super().vocab_filename_of(feature))

    def inputs_of(self, split: str) -> SampleInputs:
        """Return the inputs of a split."""
        found: SampleInputs = next(one["inputs"] for one in self._splits if one["split"] == split)
        return found

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        """Yield samples; labels are text."""
        inputs = self.inputs_of(dataset_split)
        reader = ChunkReader()
        for chunk in SampleChunker().chunks(plan_inputs(inputs.sources(), inputs.layout, 0, 0, 1 << 62)):
            texts = chunk.read(reader).texts
            for row in zip(*(some.texts() for some in texts.values()), strict=True):
                yield {name: text.decode("utf-8", "surrogateescape") for name, text in zip(texts, row, strict=True)}

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
            if name not in FILE_NAMES:
                raise OptionError(f"{where}: split is {shorten(name)}; expected train, eval or test: correct it")
            shards = one.get("shards", 100 if name == "train" else 1)
            if not 1 <= shards <= 99999:
                raise OptionError(f"{where}: shards is {shards}; expected 1 to 99999: choose another number")
            splits.append({"split": name, "shards": shards, "inputs": self._read_inputs(one, where)})
        names = [FILE_NAMES[one["split"]] for one in splits]
        if len(set(names)) < len(names):
            raise OptionError(
                f"{self._where}: a split is listed twice; expected train, eval and test once each: remove one, or list its "
                "inputs in the other"
            )
        without = [one["split"] for one in splits if one["inputs"] is None]
        if splits[0]["inputs"] is None or 0 < len(without) < len(splits) - 1:
            raise OptionError(
                f"{self._where}: the split {without[0]} has no inputs; expected inputs in each split, or only in the first "
                "one, whose samples are then divided among the shards of all splits: add them"
            )
        return splits

    def _read_inputs(self, one: Mapping[str, Any], where: str) -> SampleInputs | None:
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
            paths = tuple(self._paths(one[form], one.get("archive")) for form in forms)
            return SampleInputs(layout, paths, int(self._settings.get("file_byte_budget", SampleInputs.file_byte_budget)))
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


def _setting(key: str) -> property:
    """Return a property with the value of a key, by default that of the base class."""
    default = getattr(Problem, key)
    return property(lambda self: self._settings.get(key, default.fget(self)), doc=default.__doc__)


for _key in _KEYS:
    if isinstance(vars(Problem).get(_key), property) and _key not in vars(FileProblem):
        setattr(FileProblem, _key, _setting(_key))


class FileClassProblem(FileProblem, Text2ClassProblem):
    """A problem with class labels whose samples are in files."""

    @property
    def num_classes(self) -> int:
        """The number of labels."""
        return len(self.class_labels(""))

    def class_labels(self, data_dir: Any) -> list[str]:  # noqa: ARG002
        """Return the labels in the order of their numbers."""
        found = self._settings.get("class_labels")
        if isinstance(found, str):
            path = self._folder / found
            try:
                found = path.read_text(encoding="utf-8-sig", errors="surrogateescape").split("\n")
            except OSError as cause:
                raise read_error(path, cause, error=CorpusError, what="list of class labels") from cause
            found = [label.strip() for label in found if label.strip()]
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


def _checked_keys(
    given: Mapping[str, Any],
    known: Mapping[str, Any],
    where: str,
) -> dict[str, Any]:
    for key, value in given.items():
        if key not in known:
            raise OptionError(f"{where}: it has the key `{shorten(key)[1:-1]}`; expected {', '.join(known)}: correct it")
        right = isinstance(value, known[key]) and (not isinstance(value, bool) or known[key] is bool)
        if right and isinstance(value, list) and key != "dataset_splits":
            right = bool(value) and all(isinstance(item, str) for item in value)
        if not right:
            kinds = {
                str: "a string",
                int: "a whole number",
                float: "a number",
                bool: "true or false",
                list: "a list of strings",
            }
            expected = " or ".join(kinds[kind] for kind in get_args(known[key]) or [known[key]])
            raise OptionError(f"{where}: {key} is {shorten(value)}; expected {expected}: correct it")
    return dict(given)


def problem_from_settings(settings: Mapping[str, Any], folder: StrPath = ".", where: str = "problem") -> FileProblem:
    """Return the problem that a dict describes, as in a TOML file.

    Parameters
    ----------
    settings : dict
    folder : path
        Where relative paths begin.
    where : str
        What contains the settings, for messages.

    Raises
    ------
    OptionError
    """
    kind = FileClassProblem if settings.get("kind") == TEXT2CLASS else FileProblem
    return kind(settings, Path(folder), where)


def load_problem(name: StrPath | Text2TextProblem) -> Text2TextProblem:
    """Return a problem.

    Parameters
    ----------
    name : path, str or Text2TextProblem
        A TOML file, or `MODULE:CLASS` or `FILE.py:CLASS`.

    Raises
    ------
    ArgumentTypeError, OptionError
        If there is no such problem.
    """
    if isinstance(name, Text2TextProblem):
        return name
    text = arguments.path("problem", name)
    module, found, attribute = text.rpartition(":")
    if found and attribute.isidentifier() and not Path(text).exists():
        return _load_class(module, attribute)
    path = Path(text)
    try:
        data = path.read_bytes()
    except OSError as cause:
        raise read_error(path, cause, error=OptionError, what="problem") from cause
    return problem_from_settings(_parse_toml(data, path), path.parent, str(path))


def _parse_toml(data: bytes, path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib as toml
    else:
        toml = import_extra("tomli", f"the problem `{path}`", extra="t2t", error=OptionError)
    try:
        found: dict[str, Any] = toml.loads(data.decode("utf-8-sig"))
    except (toml.TOMLDecodeError, UnicodeDecodeError) as cause:
        raise OptionError(f"`{path}` is not valid TOML: {cause}; expected the description of a problem: correct it") from cause
    return found


def _load_class(module: str, attribute: str) -> Text2TextProblem:
    try:
        if module.endswith(".py"):
            name = Path(module).stem
            spec = importlib.util.spec_from_file_location(name, module)
            if spec is None or spec.loader is None:
                raise ImportError(f"`{module}` cannot be imported")
            loaded = importlib.util.module_from_spec(spec)
            sys.modules[name] = loaded
            spec.loader.exec_module(loaded)
        else:
            loaded = importlib.import_module(module)
        problem = getattr(loaded, attribute)()
    except BpejitError:
        raise
    except Exception as cause:
        raise OptionError(
            f"cannot create the problem `{module}:{attribute}`: {type(cause).__name__}: {cause}; expected a class that is "
            "created without arguments: check the module"
        ) from cause
    if not isinstance(problem, Text2TextProblem):
        raise OptionError(
            f"`{module}:{attribute}` is a {type(problem).__name__}; expected a subclass of Text2TextProblem: derive it from "
            "this class of `bpejit.t2t.datagen.problems`"
        )
    return problem


class GenerationWork(Workers, AnyEngine, ProgressOption, total=False):
    """How the generation of data is distributed and reported."""


@takes(GenerationWork)
def generate_data(
    problem: Text2TextProblem | StrPath,
    data_dir: StrPath,
    *,
    tmp_dir: StrPath | None = None,
    format: str = DEFAULT_RECORD_FORMAT,  # noqa: A002 - as for encoding
    seed: int = 0,
    strict: bool = False,
    max_memory: int = SHUFFLE_MEMORY,
    unit_bytes: int = UNIT_BYTES,
    shard: str | tuple[int, int] | None = None,
    resume: bool = False,
    dry_run: bool = False,
    overwrite: bool = False,
    **work: Unpack[GenerationWork],
) -> GenerationReport:
    """Generate the data set of a problem: build its vocabulary if it is missing, encode its samples, and write shuffled shards.

    Parameters
    ----------
    problem : Text2TextProblem, path or str
        A problem, a TOML file that describes one, or `MODULE:CLASS`.
    data_dir : path
        The folder for the vocabularies and the shards, or a URL such as `s3://bucket/data`.
    tmp_dir : path, optional
        A folder that is passed to `generate_samples`; by default a temporary one.
    format : str
        `tfrecord`; `jsonl`, an object in each line, `parquet`, a row with lists, both in files with such suffixes.
    seed : int
        Selects the order of the examples.
    strict : bool
        Whether a malformed or empty sample is an error. By default it is skipped and counted.
    max_memory : int
        Bytes of memory for shuffling. The result does not depend on it.
    unit_bytes : int
        Bytes of input after which the job can be resumed, and the granularity of its division into parts.
    shard : str, optional
        I/N, with I from 0 to N - 1: generate only this part, and join the parts when the last one is complete. `auto` reads I
        and N from the variables of Slurm's job arrays, or `RANK` and `WORLD_SIZE`.
    resume : bool
        Whether to continue an earlier run of the same job. If the data set is complete, nothing is done.
    dry_run : bool
        Whether to plan the job only, and estimate its time from a sample.
    overwrite : bool
        Whether to replace an existing data set. Existing vocabularies are always used.
    {options}

    Returns
    -------
    GenerationReport

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError, TokenizerFormatError, TrainingError
    """
    given = locals() | work
    command = getattr(work["progress"], "command", "") or describe_call("bpejit.generate_data", generate_data, given)
    options = check_job_options(given, command)
    return generate(
        load_problem(problem),
        data_dir,
        options,
        tmp_dir=tmp_dir,
        format=format,
        strict=strict,
        max_memory=max_memory,
        dry_run=dry_run,
        **work,
    )
