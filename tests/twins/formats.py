"""Reading and writing the files of tokenizers."""

from __future__ import annotations

import binascii
import json
import re

from bpejit.normalization.byte_characters import decode_byte_characters


def parse_rank_lines(data: bytes, longest: int) -> list[tuple[bytes, int]] | None:
    """Return the tokens and ranks of a rank file, or None if it is not in canonical form."""
    if not re.fullmatch(rb"([A-Za-z0-9+/]+={0,2} [0-9]{1,8}\n)*", data):
        return None
    lines = [line.split() for line in data.splitlines()]
    if any(len(text) % 4 for text, _ in lines):
        return None
    found = [(binascii.a2b_base64(text), int(rank)) for text, rank in lines]
    ranks = [rank for _, rank in found]
    return found if ranks == sorted(set(ranks)) and all(0 < len(token) <= longest for token, _ in found) else None


def copy_strings(strings: list[bytes], places: list[int]) -> list[bytes]:
    """Return the strings at several indexes."""
    return [strings[place] for place in places]


def token_strings(texts: list[str], level: bool, suffix: str, space: str) -> list[bytes | None]:
    """Return the bytes that the texts of a vocabulary stand for, and None for those that no text becomes."""
    found: list[bytes | None] = []
    for text in texts:
        try:
            if level:
                at_end = suffix != "" and text.endswith(suffix) and text != suffix
                token = decode_byte_characters(text.removesuffix(suffix) if at_end else text) + suffix.encode() * at_end
            else:
                token = text.replace(space, " ").encode() if space else text.encode()
        except UnicodeEncodeError:
            token = b""
        found.append(token if token and not (space and not level and " " in text) else None)
    return found


def parse_merges(data: bytes) -> list[bytes] | None:
    """Return the tokens of a list of merges at the start of JSON, left and right in turn; None if it has anything else."""
    try:
        merges, _ = json.JSONDecoder().raw_decode(data.decode())
    except ValueError:
        return None
    found: list[bytes] = []
    for merge in merges:
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(token, str) for token in pair)):
            return None
        try:
            found += [token.encode() for token in pair]
        except UnicodeEncodeError:
            return None
    return found


def parse_vocabulary(data: bytes) -> list[tuple[bytes, int]] | None:
    """Return the texts and ids of an object at the start of JSON, repeated texts too; None if it has anything else."""
    decoder = json.JSONDecoder(object_pairs_hook=tuple, parse_int=lambda digits: int(digits) if digits.isdecimal() else None)
    try:
        pairs, _ = decoder.raw_decode(data.decode())
        found = [(text.encode(), number) for text, number in pairs]
    except ValueError:
        return None
    return found if all(type(number) is int and number < 10**10 for _, number in found) else None


def index_strings(strings: list[bytes]) -> dict[bytes, int]:
    """Return the first index of each string."""
    return {string: number for number, string in reversed(list(enumerate(strings)))}


def find_strings(known: list[bytes], strings: list[bytes], step: int) -> list[int]:
    """Return the index in `known` of each `step` adjacent strings together, or -1."""
    index = index_strings(known)
    return [index.get(b"".join(strings[start : start + step]), -1) for start in range(0, len(strings) - step + 1, step)]
