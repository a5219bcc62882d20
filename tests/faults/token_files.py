"""Damaged token files of every format: no other documents are verified, and those without a description are consistent."""

from __future__ import annotations

import io
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from helpers.token_files import byte_tokenizer, write_documents

import bpejit
from bpejit.errors import BpejitError
from bpejit.tokenfiles import arrow_files, format_names, load_format
from bpejit.tokenfiles.description import description_path
from bpejit.tokenfiles.readers import TokenReader
from tests.faults.area import WrongError
from tests.faults.mutations import damage_bytes

TITLE = "damaged token files"
CASES = 2000
TIMEOUT = 60.0

NUMBERS = [0, 1, -1, 7, 255, 256, 65535, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63)]
"""Values that replace numbers of headers and borders."""


class Shared(NamedTuple):
    """Documents, and a folder with a folder for each format, and for packed rows, that contains them as `tokens`."""

    documents: list[list[int]]
    sources: list[Path]
    scratch: Path


def prepare(folder: Path) -> Shared:
    """Write the same documents in every format, those with rows in several groups."""
    case = random.Random(1)
    documents = [[case.randrange(257) for _ in range(case.choice([0, 1, 5, 40, 200]))] for _ in range(150)]
    tokenizer = byte_tokenizer()
    arrow_files.GROUP_TOKENS = 2500
    for name in [*format_names(), "parquet packed", "arrow packed"]:
        (folder / "sources" / name).mkdir(parents=True)
        options: dict[str, Any] = {"pack": 64} if "packed" in name else {}
        write_documents(
            folder / "sources" / name / "tokens",
            documents,
            name=name.split()[0],
            block=1000,
            **{"vocab_size": tokenizer.vocab_size, "tokenizer_sha256": tokenizer.sha256, **options},
        )
    return Shared(documents, sorted((folder / "sources").iterdir()), folder / "damaged")


def damage_number(content: bytes, case: random.Random) -> bytes:
    """Replace a number of 1, 4 or 8 bytes, at a multiple of its size from either end."""
    size = case.choice([1, 4, 8, 8])
    if len(content) < size:
        return content + b"\0"
    at = size * case.randrange(len(content) // size)
    at = case.choice([at, len(content) - size - at])
    old = int.from_bytes(content[at : at + size], "little")
    new = case.choice([*NUMBERS, old + 1, old - 1, old * 2]) % 256**size
    return content[:at] + new.to_bytes(size, "little") + content[at + size :]


def documents_of(tokens: TokenReader) -> list[list[int]] | None:
    """Return the documents in the order of a file, and check that all ways to read them agree; None without borders."""
    ids: list[int] = []
    ends: list[int] | None = None if tokens.n_documents is None else []
    for block, some in tokens.document_blocks(1000):
        if ends is not None and some is not None:
            ends += (some + len(ids)).tolist()
        ids += block.tolist()
    if not len(tokens) == len(tokens.ids) == len(ids) or tokens.ids.tolist() != ids or tokens[:].tolist() != ids:
        raise WrongError(f"{len(tokens)} ids, of which {len(tokens.ids)} are mapped and {len(ids)} are read in blocks")
    if [number for block in tokens.blocks(700) for number in block.tolist()] != ids:
        raise WrongError("blocks differ")
    if ends is None:
        return None
    starts = [0, *ends[:-1]] if ends else []
    if len(ends) != tokens.n_documents or (ends and ends[-1] != len(ids)) or sorted(ends) != ends or min(ends, default=0) < 0:
        raise WrongError(f"{len(ends)} ends for {tokens.n_documents} documents, up to {ends[-1:]} of {len(ids)}: {ends[:99]}")
    documents = [ids[start:end] for start, end in zip(starts, ends, strict=True)]
    if [tokens.document(number).tolist() for number in range(len(documents))] != documents:
        raise WrongError("documents read one by one differ")
    return documents


def use(path: Path, options: dict[str, Any]) -> None:
    """Decode and convert a file, and compare the documents that it then has; errors are those of bpejit."""
    tokens = bpejit.open_tokens(path, **options)
    with suppress(BpejitError):
        byte_tokenizer().decode_file(path, io.BytesIO(), **options)
    for form in ("npy", "megatron", "parquet"):
        out = path.with_name(f"out-{form}")
        reading = {f"input_{key}": value for key, value in options.items()}
        try:
            bpejit.convert_tokens(path, out, format=form, **reading)
        except BpejitError:
            continue
        documents = documents_of(tokens)
        if documents is None and load_format(form).stores_documents:
            documents = [tokens.ids.tolist()] if len(tokens) else []
        if documents_of(bpejit.open_tokens(out)) != documents:
            raise WrongError(f"the file converted to {form} has other documents")


def attempt(shared: Shared, case: random.Random, number: int) -> str:
    """Damage a file of a token file, with or without its description, and read it in every way."""
    source = case.choice(shared.sources)
    name = source.name.split()[0]
    form = load_format(name)
    shutil.rmtree(shared.scratch, ignore_errors=True)
    shutil.copytree(source, shared.scratch)
    path = shared.scratch / "tokens"
    described = case.random() < 0.6
    if not described:
        description_path(form.files(path)[0]).unlink()
    files = [file for file in map(Path, form.files(path)) if file.exists()]
    damaged = case.choice(files)
    content = damaged.read_bytes()
    if case.random() < 0.05:
        damaged.unlink()
    else:
        damaged.write_bytes((damage_bytes if case.random() < 0.5 else damage_number)(content, case))
    options: dict[str, Any] = {"format": name} if case.random() < 0.5 else {}
    if not description_path(files[0]).exists() and name == "bin":
        options["dtype"] = "uint16"
    step = "opening"
    try:
        tokens = bpejit.open_tokens(path, **options)
        step = "reading"
        documents = documents_of(tokens)
        step = "verify"
        if tokens.ids_sha256 is not None:
            tokens.verify()
    except BpejitError as error:
        message = str(error)
        if "\n" in message or len(message) > 1500:
            raise WrongError(f"an error of {len(message)} characters: {message[:3000]}") from None
        if step != "opening":
            with suppress(BpejitError):
                use(path, options)
        return f"refused when {step}" if step != "verify" else "refused by verify"
    use(path, options)
    expected = shared.documents
    if "packed" in source.name:
        ids = np.concatenate([np.array(document, dtype=int) for document in shared.documents])
        expected = ids[: ids.size // 64 * 64].reshape(-1, 64).tolist()
    if documents == expected:
        return "the same documents"
    if tokens.ids_sha256 is not None:
        if documents is not None or tokens.ids.tolist() != [one for document in expected for one in document]:
            raise WrongError(f"{damaged.name} of {source.name}: verified, and the documents differ")
        return "the same ids, borders not asked for"
    return "read without a description"
