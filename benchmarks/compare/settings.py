"""The sizes of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import machine


@dataclass
class Settings:
    """The settings of a run; the defaults are those of a full one."""

    rounds: int = 5
    workers: int = field(default_factory=machine.cores)
    timeout: float = 90.0
    corpora: list[str] = field(default_factory=list)
    vocabularies: list[str] = field(default_factory=list)
    limit: int | None = None
    """Bytes of each text."""
    vocab_size: int = 32_000
    warm_bytes: int = 4_000_000_000
    """Memory to touch before the first run: a virtual machine's host provides memory when it is first used."""
    large_bytes: int = 100_000_000
    """Bytes of a mixture of all texts to train on, besides the texts themselves; 0 for none."""
    own_bytes: int = 20_000_000
    """Bytes of a text that is encoded with a vocabulary trained on its language."""
    file_bytes: int = 200_000_000
    large_file_bytes: int = 2_200_000_000
    small_files: int = 10_000
    long_bytes: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    batch_texts: int = 200_000
    lines: int = 2_000
    stream_bytes: int = 5_000_000
    patterns: tuple[str, ...] = ()
    """Presets to split by; all by default."""
    first_runs: int = 1
    """How often everything is compiled from scratch."""
    plain_bytes: int = 1_000_000
    plain_merges: int = 1_000
    subword_bytes: int = 1_000_000
    subword_vocab_size: int = 8_192
    datagen_plain_bytes: int = 1_000_000
    """Bytes of pairs that the plain pipeline generates a data set from."""
    scaling_bytes: tuple[int, ...] = (1_000_000, 10_000_000, 100_000_000)
    scaling_vocab_sizes: tuple[int, ...] = (1_000, 4_000, 16_000, 64_000, 128_000)


QUICK = {
    "rounds": 1,
    "limit": 1_000_000,
    "warm_bytes": 500_000_000,
    "vocab_size": 4_000,
    "large_bytes": 0,
    "own_bytes": 1_000_000,
    "file_bytes": 16_000_000,
    "large_file_bytes": 32_000_000,
    "small_files": 1_000,
    "long_bytes": (10_000, 100_000),
    "batch_texts": 10_000,
    "lines": 500,
    "stream_bytes": 500_000,
    "first_runs": 0,
    "plain_bytes": 100_000,
    "plain_merges": 100,
    "subword_bytes": 50_000,
    "subword_vocab_size": 1_000,
    "datagen_plain_bytes": 50_000,
    "scaling_bytes": (100_000, 1_000_000),
    "scaling_vocab_sizes": (1_000, 4_000),
}
"""Settings of `--size quick`: every work runs, on small inputs."""

TOY = {
    **QUICK,
    "limit": 40_000,
    "warm_bytes": 0,
    "vocab_size": 500,
    "own_bytes": 40_000,
    "file_bytes": 100_000,
    "large_file_bytes": 200_000,
    "small_files": 20,
    "long_bytes": (1_000,),
    "batch_texts": 200,
    "lines": 50,
    "patterns": ("gpt2", "o200k"),
    "stream_bytes": 20_000,
    "plain_bytes": 10_000,
    "plain_merges": 10,
    "subword_bytes": 10_000,
    "subword_vocab_size": 300,
    "datagen_plain_bytes": 10_000,
    "scaling_bytes": (10_000, 20_000),
    "scaling_vocab_sizes": (300,),
}
"""Settings of `--size toy`, for the tests."""

TARGETS = {"rounds": 11, "timeout": 400.0, "large_bytes": 0, "own_bytes": 200_000_000, "first_runs": 0, "patterns": ("gpt2",)}
"""Settings of `--targets`: large texts in full length, and only what the table of targets needs."""

SIZES: dict[str, dict[str, object]] = {"full": {}, "quick": QUICK, "toy": TOY}
