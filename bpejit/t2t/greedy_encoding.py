"""Encode tokens as subtokens by greedy longest match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

import numpy as np

from bpejit.arrays import Array, padded_text
from bpejit.errors import shorten
from bpejit.jit.dispatch import bind
from bpejit.kernels.constants import NEED_SCRATCH, NEED_SPACE, TEXT_PADDING
from bpejit.kernels.t2t import subtoken_encoding as kernels
from bpejit.kernels.t2t.line_encoding import make_line_encoder
from bpejit.kernels.t2t.subtoken_tree import MAX_ESCAPE_LENGTH
from bpejit.t2t.text_encoders import UnencodableTokenError
from bpejit.t2t.vocabulary_building import alphabet_table, check_size, pack_strings, split_text, word_classes_of
from bpejit.t2t.word_tokenizer import escape_token

_T = TypeVar("_T")

_BLOCK_IDS = 1 << 18
_CACHE_SLOTS = 1 << 14
_ARENA_IDS = 1 << 16
"""The cache takes half a megabyte, which leaves room in the second-level cache of the processor. Four times as many slots take
as long for English, and 5 to 10 percent longer for many languages.
"""


class _Workspace:
    """The arrays that one call of the encoding kernels writes to."""

    def __init__(self) -> None:
        self.slots = np.zeros(4 * _CACHE_SLOTS, np.uint64)
        self.arena = np.zeros(_ARENA_IDS, np.uint32)
        self.scratch = np.zeros(1 << 12, np.uint32)
        self.out = np.zeros(_BLOCK_IDS, np.uint32)
        self.state = np.zeros(4, np.int64)


LINE_BYTES = 1 << 10
"""Longest line that the builtin function encodes, whose kernels keep the GIL for some microseconds."""


class GreedyEncoder:
    """Encodes tokens with a vocabulary.

    Parameters
    ----------
    ids : mapping of str to int
        The id of each subtoken.
    alphabet : set of str
        The characters that are not escaped.
    longest : int
        The length of the longest subtoken.
    """

    def __init__(self, ids: Mapping[str, int], alphabet: set[str], longest: int) -> None:
        self._ids = ids
        self._alphabet = alphabet
        self._longest = longest
        self._workspaces: list[_Workspace] = []

    @cached_property
    def encode_line(self) -> Callable[[object], list[int] | None]:
        """Encode a short string, and return the list; return None for any object that has to be encoded in another way."""
        workspace = _Workspace()
        text = np.zeros(4 * LINE_BYTES + TEXT_PADDING, np.uint8)
        ends = np.zeros(LINE_BYTES + 2, np.uint32)
        split_state = np.zeros(2, np.int64)
        workspace.scratch = np.zeros(MAX_ESCAPE_LENGTH * (LINE_BYTES + 1), np.uint32)
        split = bind(kernels.split_words, text, 0, *word_classes_of(by_lines=False), ends, split_state)
        encode = bind(
            kernels.encode_words, text, 0, ends, 0, 0, False, -1, *self._tables,
            workspace.slots, workspace.arena, workspace.scratch, workspace.out, workspace.state,
        )  # fmt: skip
        self._line_calls = split, encode  # the function refers to their arrays
        return make_line_encoder(split, encode, text[:-TEXT_PADDING], workspace.out, split_state, workspace.state) or _never

    def encode(self, data: bytes | bytearray, *, by_lines: bool, line_id: int) -> Iterator[Array]:
        """Yield the ids of the tokens of a text in blocks, as uint32 arrays.

        Parameters
        ----------
        data : bytes
        by_lines : bool
            Whether each line is a text.
        line_id : int
            The id to write at each newline, or -1 for none.

        Raises
        ------
        CorpusError
            If the text is too large.
        UnencodableTokenError
        """
        check_size(len(data))
        alphabet, edges, roots = self._tables
        text, stop = padded_text(data)
        # Kernels release the GIL: a workspace is used by one call at a time.
        workspace = _taken(self._workspaces) or _Workspace()
        state = workspace.state
        for first, ends, n_ends in split_text(text, stop, by_lines=by_lines):
            state[kernels.NEXT] = 0
            while True:
                state[kernels.WRITTEN] = 0
                status = kernels.encode_words(
                    text, first, ends, n_ends, stop, by_lines, line_id, alphabet, edges, roots,
                    workspace.slots, workspace.arena, workspace.scratch, workspace.out, state,
                )  # fmt: skip
                written = int(state[kernels.WRITTEN])
                if written:
                    yield workspace.out[:written].copy()
                if status not in (NEED_SPACE, NEED_SCRATCH):
                    break
                if status == NEED_SCRATCH:
                    workspace.scratch = np.zeros(self._required_size(first, ends, state), np.uint32)
                elif not written:
                    workspace.out = np.zeros(2 * self._required_size(first, ends, state), np.uint32)
            if status == kernels.UNENCODABLE:
                start = int(ends[state[kernels.NEXT] - 1]) if state[kernels.NEXT] else first
                token = text[start : ends[state[kernels.NEXT]]].tobytes().decode("utf-8", "surrogateescape")
                raise _unencodable(token)
        if workspace.scratch.size + workspace.out.size < 8 * _BLOCK_IDS:
            self._workspaces.append(workspace)

    @staticmethod
    def _required_size(first: int, ends: Array, state: Array) -> int:
        """Return the number of elements that the next span may need."""
        index = int(state[kernels.NEXT])
        start = int(ends[index - 1]) if index else first
        return MAX_ESCAPE_LENGTH * (int(ends[index]) - start + 1)

    @cached_property
    def _tables(self) -> tuple[Array, Array, Array]:
        token_ids = sorted(self._ids.items(), key=lambda item: item[1])
        by_id = [""] * (token_ids[-1][1] + 1 if token_ids else 0)
        for string, token_id in token_ids:
            by_id[token_id] = string
        points, starts = pack_strings(by_id)
        roots = np.zeros(2 * kernels.ROOTS, np.uint64)
        edges = np.zeros(2 << max(2 * points.size, 2).bit_length(), np.uint64)
        n_edges = int(kernels.build_edges(points, starts, edges, roots))
        fewer = 2 << max(2 * n_edges, 2).bit_length()
        if fewer < edges.size:  # subtokens share prefixes, and a smaller table takes less of the cache of the processor
            edges = np.zeros(fewer, np.uint64)
            kernels.build_edges(points, starts, edges, roots)
        return alphabet_table(self._alphabet), edges, roots

    def encode_plainly(self, tokens: list[str]) -> list[int]:
        """Return the ids of tokens, which may contain lone surrogates, in plain Python."""
        known, longest = self._ids, self._longest
        ids: list[int] = []
        for token in tokens:
            escaped = escape_token(token, self._alphabet)
            start = 0
            while start < len(escaped):
                for end in range(min(len(escaped), start + longest), start, -1):
                    if escaped[start:end] in known:
                        break
                else:
                    raise _unencodable(token)
                ids.append(known[escaped[start:end]])
                start = end
        return ids


def _taken(pool: list[_T]) -> _T | None:
    """Remove and return an element of a list, if it has one, also while other threads do so."""
    try:
        return pool.pop()
    except IndexError:
        return None


def _never(text: object) -> None:
    """Encode nothing: there are no such builtin functions here."""


def _unencodable(token: str) -> UnencodableTokenError:
    return UnencodableTokenError(
        f"the token {shorten(token)} cannot be encoded with this vocabulary; expected a subtoken for each character of its "
        "escaped form: use a vocabulary that contains its whole alphabet and the escape characters"
    )
