"""The names of the splits and of the shards of data sets."""

from __future__ import annotations


class DatasetSplit:
    """The names of the parts of a data set."""

    TRAIN = "train"
    EVAL = "eval"
    TEST = "test"


FILE_NAMES = {DatasetSplit.TRAIN: "train", DatasetSplit.EVAL: "dev", "dev": "dev", DatasetSplit.TEST: "test"}
"""The name of each split in the names of files."""


def shard_name(
    base: str,
    split: str,
    shard: int,
    shards: int,
    *,
    shuffled: bool = True,
    suffix: str = "",
) -> str:
    """Return the published name of a shard.

    Examples
    --------
    >>> shard_name("wmt", "eval", 0, 1)
    'wmt-dev-00000-of-00001'
    """
    return f"{base}{'' if shuffled else '-unshuffled'}-{FILE_NAMES[split]}-{shard:05d}-of-{shards:05d}{suffix}"
