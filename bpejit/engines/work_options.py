"""The options that say how work is distributed. None of them changes a result."""

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from bpejit import arguments
from bpejit.corpus.reading_options import CHUNK_BYTES
from bpejit.engines import AUTO, RAY, engine_descriptions, engine_names
from bpejit.errors import EngineError
from bpejit.options import Option
from bpejit.progress_bar import Progress


def _engines(**more: str) -> str:
    listed = {**engine_descriptions(), **more}
    return ", ".join(f"{name} ({text})" if text else name for name, text in listed.items())


class ProgressOption(TypedDict, total=False):
    """How a function reports."""

    progress: Annotated[
        Progress | bool | None,
        Option(
            None,
            """Called as `progress(stage, done, total, unit)`. True shows a bar on a terminal or in a notebook, and a line on
            standard error elsewhere.""",
            kind="callable or bool",
        ),
    ]


class Workers(TypedDict, total=False):
    """How many workers there are."""

    workers: Annotated[
        int | None,
        Option(
            None,
            """Number of threads or processes that read text, and of threads that learn merges: passes over all cells run in
            parallel, and the merges themselves in one thread. The default is the number of processors. Does not change the
            result.""",
            "Number of workers.",
            shown="one per processor",
            section="Large corpora",
        ),
    ]


class LocalEngine(TypedDict, total=False):
    """An engine on this machine."""

    engine: Annotated[
        str,
        Option(
            AUTO,
            """How the work is distributed: "auto" or a name in `bpejit.engines.engine_names()`. Does not change the result.""",
            lambda: f"How work is distributed, with equal results: auto, {_engines()}.",
            choices=lambda: (AUTO, *engine_names()),
            section="Large corpora",
        ),
    ]


class AnyEngine(TypedDict, total=False):
    """An engine on this machine, or a cluster."""

    engine: Annotated[
        str,
        Option(
            AUTO,
            """How the work is distributed: "auto" or a name in `bpejit.engines.engine_names()`. "ray" runs parts of the work on
            a Ray cluster, as many at a time as `workers`. Merges are learned in this process, with "serial" in one thread. Does
            not change the result.""",
            lambda: f"How work is distributed, with equal results: auto, {_engines(**{RAY: 'a Ray cluster'})}.",
            choices=lambda: (AUTO, *engine_names(), RAY),
            section="Large corpora",
        ),
    ]
    ray_address: Annotated[
        str | None,
        Option(
            None,
            """For `engine="ray"`: `host:port` of the cluster, or "local". By default the running cluster, otherwise a local
            one.""",
            "The Ray cluster of --engine ray, or local.",
            metavar="HOST:PORT",
            shown="the running cluster, otherwise a local one",
            section="Large corpora",
        ),
    ]


class Chunks(TypedDict, total=False):
    """How inputs are divided."""

    chunk_bytes: Annotated[
        int, Option(CHUNK_BYTES, "Size of the chunks into which files are divided. Does not change the result.")
    ]


class LocalWork(Workers, LocalEngine, Chunks, ProgressOption, total=False):
    """How work is distributed on this machine, and reported."""


class Distribution(Workers, AnyEngine, Chunks, total=False):
    """How work is distributed on this machine or a cluster."""


class Work(Distribution, ProgressOption, total=False):
    """How work is distributed on this machine or a cluster, and reported."""


def checked_work(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `Work` after checking them, with `report`, which is callable, in place of `progress`.

    Raises
    ------
    ArgumentTypeError, OptionError, EngineError
    """
    from bpejit.kernels.constants import MAX_TEXT_BYTES

    clusters = [RAY] if "ray_address" in options else []
    chunk_bytes = options.get("chunk_bytes", CHUNK_BYTES)
    found = {
        "report": arguments.progress(options.get("progress")),
        "workers": arguments.optional_whole_number("workers", options["workers"], least=1, error=EngineError),
        "engine": arguments.choice("engine", options["engine"], (AUTO, *engine_names(), *clusters), error=EngineError),
        "chunk_bytes": arguments.whole_number("chunk_bytes", chunk_bytes, least=1, most=MAX_TEXT_BYTES),
    }
    if clusters:
        found["ray_address"] = address = arguments.optional_string("ray_address", options["ray_address"])
        if address is not None and found["engine"] != RAY:
            raise EngineError(
                f"ray_address is given, and engine is {found['engine']!r}; expected the engine that uses it: give "
                "`engine='ray'`, or leave `ray_address=` out"
            )
    return found
