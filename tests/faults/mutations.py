"""Damaged tokenizer files of every format: each is refused with an error of bpejit, or loads as a model that is consistent."""

from __future__ import annotations

import copy
import json
import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from conftest import data_text
from helpers.encoding import naive_ids
from helpers.formats import NEWER

import bpejit
from bpejit.errors import BpejitError
from bpejit.formats.any_format import load_model
from bpejit.formats.folder_writing import save_folder
from bpejit.splitting import PRESETS
from tests.faults.area import WrongError

TITLE = "damaged tokenizer files"
CASES = 4000
TIMEOUT = 60.0

SAMPLE = "The tokenizer's text, don't you  know: 12345\n\n日本語 é 🙂<|endoftext|> x" + "ab" * 20
SIDECARS = ("mine.tiktoken.bpejit.json", "vocab.json.bpejit.json")
SPECIAL = "<|endoftext|>"
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    255,
    256,
    2**31,
    2**64,
    1.5,
    "",
    "a",
    "Ġ",
    "\udc80",
    [],
    {},
    ["a", "b"],
    [[]],
    "x" * 5000,
]
"""Replacements for values of JSON files."""


class Shared(NamedTuple):
    """A tokenizer in each format, as folders, and a folder for the damaged copy."""

    formats: list[Path]
    scratch: Path


def prepare(folder: Path) -> Shared:
    """Train a small tokenizer and write it in every format."""
    corpus = folder / "corpus.txt"
    corpus.write_bytes(data_text("prose.txt")[:100_000] + data_text("cjk.txt")[:20_000])
    tokenizer = bpejit.train([corpus], vocab_size=400, special_tokens=[SPECIAL], pattern="gpt2")
    formats = folder / "formats"
    for name in ("own", "hf", "hf_pipeline", "ranks", "pair", "mistral"):
        (formats / name).mkdir(parents=True)
    shutil.rmtree(formats / "own")
    tokenizer.save(formats / "own")
    tokenizer.save(formats / "hf_whole", format="hf")
    shutil.copy(formats / "hf_whole" / "tokenizer.json", formats / "hf")
    document = json.loads((formats / "hf" / "tokenizer.json").read_text(encoding="utf-8"))
    document["normalizer"] = {
        "type": "Sequence",
        "normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern": {"String": "``"}, "content": '"'}],
    }
    document["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "Split", "pattern": {"Regex": r"\s+(?!\S)|\S+"}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        ],
    }
    (formats / "hf_pipeline" / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    tokenizer.save(formats / "ranks" / "mine.tiktoken", format="tiktoken")
    shutil.rmtree(formats / "pair")
    tokenizer.save(formats / "pair", format="gpt2")
    (formats / "mistral" / "tekken.json").write_text(json.dumps(NEWER))
    shutil.rmtree(formats / "hf_whole")
    return Shared(sorted(formats.iterdir()), folder / "damaged")


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of each value within nested dicts and lists."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, child in children for found in paths_of(child, (*path, key)))]


def damage_json(content: bytes, case: random.Random) -> bytes:
    """Replace, remove or duplicate a value of a JSON document."""
    document = json.loads(content)
    # Half of the time near the top, where the settings are; most of the other values are tokens.
    paths = [path for path in paths_of(document) if path]
    if case.random() < 0.7:
        paths = [path for path in paths if len(path) <= 3 and not str(path[-1]).startswith("Ġ")] or paths
    *parents, key = case.choice(paths)
    parent = document
    for step in parents:
        parent = parent[step]
    match case.randrange(4):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, list):
            parent.insert(case.randint(0, len(parent)), copy.deepcopy(parent[key]))
        case 1:
            parent[f"{key}{case.choice(['', ' ', 'x', 'é'])}x"] = parent.pop(key)
        case 2 if isinstance(parent, list):
            case.shuffle(parent)
        case _:
            parent[key] = copy.deepcopy(case.choice(VALUES))
    return json.dumps(document, ensure_ascii=case.random() < 0.5).encode("utf-8", "surrogatepass")


def damage_bytes(content: bytes, case: random.Random) -> bytes:
    """Change a few bytes, or truncate, move or repeat a part."""
    data = bytearray(content)
    for _ in range(case.choice([1, 1, 1, 2, 4, 16])):
        position = case.randrange(len(data)) if data else 0
        span = case.choice([1, 2, 5, 100, 5000])
        match case.randrange(8):
            case 0 if data:
                data[position] ^= 1 << case.randrange(8)
            case 1 if data:
                data[position] = case.choice(b'0129-"{}[],:= \n\xff\0')
            case 2:
                del data[position:]
            case 3:
                del data[position : position + span]
            case 4:
                data[position:position] = case.randbytes(case.randint(1, 4))
            case 5:
                data[position:position] = data[position : position + span]
            case 6:
                lines = data.splitlines(keepends=True)
                case.shuffle(lines)
                data = bytearray().join(lines)
            case _:
                other = case.randrange(len(data)) if data else 0
                data[other:other] = data[position : position + span]
    return bytes(data)


def check(tokenizer: bpejit.Tokenizer, scratch: Path) -> None:
    """Check that a loaded tokenizer encodes according to its model, and that encoding and saving are reversible."""
    model = tokenizer.model
    ids = tokenizer.encode(SAMPLE)
    known = set(model.tokens) | set(model.special_tokens.values())
    if not known.issuperset(ids):
        raise WrongError(f"ids without a token: {sorted(set(ids) - known)}")
    if model.pipeline is None:
        if tokenizer.decode_bytes(ids) != SAMPLE.encode():
            raise WrongError(f"decoding gives {tokenizer.decode_bytes(ids)!r}")
        pattern = PRESETS.get(model.pattern, model.pattern) if isinstance(model.pattern, str) else None
        if isinstance(pattern, str):
            expected = naive_ids(model, SAMPLE.encode(), pattern)
            if ids != expected:
                raise WrongError(f"encoded as {ids}, expected {expected}")
    save_folder(model, scratch)
    again = bpejit.load(scratch).encode(SAMPLE)
    if again != ids:
        raise WrongError(f"encoded as {ids}, after saving and loading as {again}")


def attempt(shared: Shared, case: random.Random, number: int) -> str:
    """Damage a file of a copy, and load it with and without the options that its format lacks."""
    source = case.choice(shared.formats)
    for folder in (shared.scratch, shared.scratch.with_name("saved")):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, shared.scratch)
    if case.random() < 0.5:  # these formats detect any change
        for name in SIDECARS:
            (shared.scratch / name).unlink(missing_ok=True)
    damaged = case.choice(sorted(path for path in shared.scratch.iterdir() if path.suffix in (".json", ".txt", ".tiktoken")))
    content = damaged.read_bytes()
    kind = damage_json if damaged.suffix == ".json" and case.random() < 0.6 else damage_bytes
    damaged.write_bytes(kind(content, case))
    options: dict[str, Any] = {}
    if source.name in ("ranks", "pair") and case.random() < 0.7:
        n_tokens = len((shared.scratch / "mine.tiktoken").read_bytes().splitlines()) if source.name == "ranks" else 0
        options = {"pattern": "gpt2", "special_tokens": {SPECIAL: n_tokens + 10} if n_tokens else [SPECIAL]}
    try:
        tokenizer = bpejit.load(shared.scratch, **options)
    except BpejitError as error:
        message = str(error)
        if "\n" in message or len(message) > 1500:
            raise WrongError(f"an error of {len(message)} characters: {message[:3000]}") from None
        return "refused"
    check(tokenizer, shared.scratch.with_name("saved"))
    same = load_model(source, **options) == tokenizer.model if source.name != "ranks" or not options else False
    return "loaded, the same model" if same else "loaded, another valid model"
