"""Sessions: the ids are those of encoding the whole text, whatever was changed; changes are local."""

from __future__ import annotations

import random
import threading
import tracemalloc

import numpy as np
import pytest
from conftest import data_text, small
from helpers.compat import trained
from helpers.encoding import FALLBACK, make_model
from helpers.huggingface import added_token, tokenizer_json
from helpers.sessions import check_changes, random_pipeline, small_sessions
from helpers.symbols import KINDS
from hypothesis import given, strategies as st

import bpejit
from bpejit.encoding import session as sessions
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.session import Appended, Edited
from bpejit.errors import BpejitError
from bpejit.formats.huggingface_reading import model_from_json
from bpejit.splitting.presets import PRESETS

SPECIALS = ["<|end|>", "<|e", "<s>", " ab"]


def make(pattern: str = "gpt2", specials: tuple[str, ...] = (*SPECIALS,)) -> bpejit.Tokenizer:
    return bpejit.Tokenizer.from_model(make_model(trained()[1], [*specials], pattern=pattern))


@pytest.fixture(scope="module")
def tokenizers() -> list[bpejit.Tokenizer]:
    presets = PRESETS if small(1, 0) else ["gpt2", "cl100k"]
    kinds = [bpejit.Tokenizer.from_model(model_from_json(made())) for made in KINDS.values()]
    return [*(make(pattern) for pattern in (*presets, FALLBACK, r"\p{L}+|\s")), make("gpt2", ()), *kinds]


@given(seed=st.integers(0, 2**32))
def test_changes(seed, tokenizers):
    """Appends, edits and forks, with all presets and kinds of tokenizers."""
    generator = random.Random(seed)
    with small_sessions(generator):
        check_changes(generator.choice(tokenizers), generator, 6)


@given(seed=st.integers(0, 2**32))
def test_changes__pipelines(seed):
    """Normalizers, prefix spaces, and added tokens that strip white space."""
    generator = random.Random(seed)
    try:
        tokenizer = bpejit.Tokenizer.from_model(model_from_json(random_pipeline(generator)))
    except BpejitError:
        return
    with small_sessions(generator):
        check_changes(tokenizer, generator, 6)


def test_results():
    tokenizer = make("gpt2")
    session = tokenizer.session("the cat sat")
    before = session.ids.tolist()
    kept, ids = session.append("s on")
    assert isinstance(session.append(""), Appended)
    assert before[:kept] + ids.tolist() == tokenizer.encode("the cat sats on") == session.ids.tolist()
    assert kept == next(number for number in range(99) if session.ids[number] != [*before, -1][number])
    before = session.ids.tolist()
    change = session.edit(4, 7, "dog")
    assert isinstance(change, Edited)
    assert session.text == "the dog sats on"
    after = session.ids.tolist()
    assert before[: change.start] + change.ids.tolist() + before[change.stop :] == after
    assert before[change.start] != after[change.start]
    assert before[change.stop :] == after[-len(tokenizer.encode(" sats on")) :]
    assert len(session) == 15
    assert session.edit(3, 3, "").ids.size == 0
    assert session.ids.dtype == np.uint32


def test_positions_are_characters():
    tokenizer = make("gpt2")
    text = "é🙂 " * 3000
    session = tokenizer.session(text)
    assert len(session) == len(text)
    session.edit(4501, 4503, "中")
    assert session.text == text[:4501] + "中" + text[4503:]
    as_bytes = tokenizer.session(text.encode())
    assert len(as_bytes) == len(text.encode())
    as_bytes.append("中".encode()[:2])
    as_bytes.append("中".encode()[2:])
    as_bytes.append("a")
    assert as_bytes.ids.tolist() == tokenizer.encode(text + "中a")


def test_changes_are_local(monkeypatch):
    """However long the text is, a change encodes a few kilobytes."""
    tokenizer = make("gpt2")
    text = (data_text("prose.txt") * 9)[: small(1_000_000, 40_000)].decode(errors="ignore")
    session = tokenizer.session(text)
    sizes = []
    for name in ("encode", "encode_before"):
        plain = getattr(Encoder, name)

        def watched(self, data, *rest, plain=plain):
            sizes.append(len(data))
            return plain(self, data, *rest)

        monkeypatch.setattr(Encoder, name, watched)
    generator = random.Random(1)
    for _ in range(20):
        place = generator.randrange(len(session))
        session.edit(place, min(place + 5, len(session)), " new word")
    assert max(sizes) < 5 * sessions.BLOCK_BYTES
    sizes.clear()
    for _ in range(50):
        session.append(text[:200])
    assert max(sizes) < 1500
    assert session.fallbacks == 0
    monkeypatch.undo()
    assert session.ids.tolist() == tokenizer.encode(session.text)


@pytest.mark.parametrize("run", ["a", "qz", " ", "\n", "1", "é"])
def test_runs_without_restarts(run):
    tokenizer = make("gpt2")
    session = tokenizer.session(run * 5000)
    for _ in range(31):
        session.append(run * 100)
    fork = session.fork()
    session.append(" end. And more words follow it here.")
    fork.append(run)
    assert session.ids.tolist() == tokenizer.encode(run * 8100 + " end. And more words follow it here.")
    assert fork.ids.tolist() == tokenizer.encode(run * 8101)
    assert fork.text == run * 8101


def test_fallbacks():
    """A pattern that runs through the `regex` package has restarts after special tokens only."""
    tokenizer = make(FALLBACK)
    session = tokenizer.session("cd " * 10_000)
    assert session.fallbacks == 0
    session.append("cd")
    assert session.fallbacks == 1
    session.append("<|end|>" + "cd " * 200)
    assert session.fallbacks == 2
    session.append("cd")
    assert session.fallbacks == 2
    assert session.ids.tolist() == tokenizer.encode(session.text)


@pytest.mark.parametrize("scheme", ["always", "first"])
@pytest.mark.parametrize("flags", [{}, {"lstrip": True}, {"rstrip": True}, {"single_word": True}])
def test_inserted_spaces_and_stripped_ones_are_local(scheme, flags):
    content = KINDS["metaspace"]()
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}
    content |= {"pre_tokenizer": space, "decoder": space}
    for token in content["added_tokens"]:
        token |= flags
    tokenizer = bpejit.Tokenizer.from_model(model_from_json(content))
    text = "the cat sat  on the mat " * 900
    session = tokenizer.session(text)
    for number in range(9):
        session.edit(2000 * number, 2000 * number + 1, " <pad> <pad>a")
        session.append(" the <pad>  mat" if number % 2 else "<pad>")
        assert session.ids.tolist() == tokenizer.encode(session.text)
    assert session.fallbacks == 0


def test_stable_prefix():
    tokenizer = make("gpt2")
    assert tokenizer.session().stable_prefix().size == 0
    assert tokenizer.session("the cat").stable_prefix().tolist() == tokenizer.encode("the")
    assert tokenizer.session("the cat <|e").stable_prefix().tolist() == tokenizer.encode("the cat")
    assert tokenizer.session("the<s>").stable_prefix().tolist() == tokenizer.encode("the<s>")
    assert tokenizer.session("the" + "a" * 9000).stable_prefix().size == 0


def test_fork__memory():
    """A fork has the same blocks."""
    tokenizer = make("gpt2")
    session = tokenizer.session("the cat sat " * 20_000)
    session.append("x")
    tracemalloc.start()
    forks = [session.fork() for _ in range(10)]
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 10 * 30_000
    forks[0].append(" and so on")
    assert session.ids.tolist() == forks[1].ids.tolist() != forks[0].ids.tolist()


def test_memory():
    """At most three times text and ids."""
    tokenizer = make("gpt2")
    text = "the cat sat on a mat. " * 20_000
    tokenizer.session(text)
    tracemalloc.start()
    session = tokenizer.session(text)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 3 * (len(text) + session.ids.nbytes)


def test_session_from_ids():
    tokenizer = bpejit.Tokenizer.from_model(make_model([(b"h", b"e"), (b"t", b"he")]))
    ids = [*tokenizer.encode("t"), *tokenizer.encode("he")]
    assert ids != tokenizer.encode("the")
    session = tokenizer.session_from_ids(ids)
    assert session.ids.tolist() == ids == session.stable_prefix().tolist()
    assert session.append("s and dogs").kept == len(ids)
    session.edit(len("thes"), len("thes and"), b" or")
    assert session.text == b"thes or dogs"
    assert session.ids.tolist() == [*ids, *tokenizer.encode("s or dogs")]
    assert session.fork().ids.tolist() == session.ids.tolist()
    with pytest.raises(bpejit.OptionError, match="start is 2"):
        session.edit(2, 9, b"")
    with pytest.raises(bpejit.TokenIdError):
        tokenizer.session_from_ids([10**6])
    content = tokenizer_json(added=(added_token("<a>", rstrip=True),))
    with pytest.raises(bpejit.UnsupportedError, match="use `session`"):
        bpejit.Tokenizer.from_model(model_from_json(content)).session_from_ids([1])


@given(texts=st.lists(st.sampled_from(["the", " c", "at", "<s>", "é", "\n", " "]), max_size=8))
def test_is_canonical(texts):
    tokenizer = make("gpt2")
    ids = [number for text in texts for number in tokenizer.encode(text)]
    expected = tokenizer.encode("".join(texts))
    found = tokenizer.is_canonical(ids)
    assert bool(found) == (ids == expected)
    same = [one == other for one, other in zip(ids, expected, strict=False)]
    assert found.first_violation == (None if ids == expected else [*same, False].index(False))
    assert tokenizer.is_canonical(np.array(expected, np.uint16))


@pytest.mark.parametrize("change", ["append", "edit"])
def test_errors_change_nothing(change):
    model = make_model([])
    tokens = {number: token for number, token in model.tokens.items() if token != b"\xff"}
    tokenizer = bpejit.Tokenizer.from_model(bpejit.Model(tokens, [], {}, "gpt2"))
    for text in (b"a b " * 10, b"ab" * 5000):
        session = tokenizer.session(text)
        before = session.ids.tolist()
        with pytest.raises(bpejit.CorpusError, match="0xff"):
            session.append(b"\xff a b") if change == "append" else session.edit(1, 2, b"\xff")
        assert session.ids.tolist() == before
        session.append(b"ab")
        assert session.ids.tolist() == tokenizer.encode(text + b"ab")


@pytest.mark.parametrize("places", [(-1, 2), (2, 1), (0, 4), (4, 4)])
def test_edit__wrong_range(places):
    with pytest.raises(bpejit.OptionError, match=r"(start|stop) is -?\d; expected"):
        make().session("abc").edit(*places, "")


def test_wrong_texts():
    session = make().session("abc")
    with pytest.raises(bpejit.ArgumentTypeError, match="text is b'a'"):
        session.append(b"a")
    with pytest.raises(bpejit.ArgumentTypeError):
        session.append(5)
    with pytest.raises(bpejit.OptionError, match="surrogate pair at character 1"):
        session.append("a\ud83d")
    assert session.text == "abc"


def test_two_threads():
    session = make().session("abc")
    found = []

    def use() -> None:
        with pytest.raises(bpejit.UnsupportedError, match="two threads"):
            session.append("a")
        found.append(1)

    with session._turn:
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    assert found
    session.append("d")
    assert session.text == "abcd"
