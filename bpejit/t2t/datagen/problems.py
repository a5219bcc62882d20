"""Problems: what a data set consists of and how it is encoded, under the published names of Tensor2Tensor.

A program describes a problem by a subclass of `Text2TextProblem`, `Text2SelfProblem` or `Text2ClassProblem`, with properties
and methods of the published names. Problems whose samples are in files are described by a TOML file
(`bpejit.t2t.datagen.problem_files`).
"""

from __future__ import annotations

import os

from bpejit.errors import OptionError, shorten
from bpejit.jobs.job_options import JobOptions
from bpejit.storage.files import StrPath
from bpejit.t2t.datagen.problem_declaration import DatasetSplit as DatasetSplit, Problem, VocabType as VocabType
from bpejit.t2t.datagen.problem_generation import generate
from bpejit.t2t.text_encoders import ClassLabelEncoder


class Text2TextProblem(Problem):
    """A data set of pairs of texts. Override `generate_samples` and `is_generate_per_split`, and other properties as needed.

    Examples
    --------
    >>> class Capitals(Text2TextProblem):
    ...     is_generate_per_split = False
    ...     approx_vocab_size = 100
    ...
    ...     def generate_samples(self, data_dir, tmp_dir, dataset_split):
    ...         for word in ("low", "lower"):
    ...             yield {"inputs": word, "targets": word.upper()}
    >>> Capitals().vocab_filename
    'vocab.capitals.100.subwords'
    """

    def generate_data(self, data_dir: StrPath, tmp_dir: StrPath | None = None, task_id: int = -1) -> None:
        """Generate the data set (see `bpejit.generate_data`).

        Parameters
        ----------
        data_dir : path
        tmp_dir : path, optional
        task_id : int
            Must be -1: use `bpejit.generate_data` to divide the work.
        """
        if task_id != -1:
            raise OptionError(f"task_id is {task_id}; expected -1: divide the work with `bpejit.generate_data(..., shard=...)`")
        command = f"bpejit.generate_data({self.name}, {shorten(os.fspath(data_dir))}, resume=True)"
        generate(self, data_dir, JobOptions(command=command), tmp_dir=tmp_dir)


class Text2SelfProblem(Text2TextProblem):
    """A data set of single texts, the `targets`."""

    @property
    def has_inputs(self) -> bool:
        """False."""
        return False


class Text2ClassProblem(Text2TextProblem):
    """A data set of texts with a class label each: samples are `{"inputs": text, "label": index}`."""

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        raise OptionError(
            f"the problem {self.name} does not say how many classes it has; expected a number: define `num_classes`, or "
            "`class_labels`"
        )

    def class_labels(self, data_dir: StrPath) -> list[str]:  # noqa: ARG002
        """Return the names of the classes."""
        return [f"ID_{index}" for index in range(self.num_classes)]

    def label_encoder(self, data_dir: StrPath) -> ClassLabelEncoder:
        """Return the encoder of the labels."""
        return ClassLabelEncoder(self.class_labels(data_dir))

    @property
    def text_features(self) -> tuple[str, ...]:
        """The inputs."""
        return ("inputs",)
