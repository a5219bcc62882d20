"""Tests of the small encoders of Tensor2Tensor; `tests/readers/test_tensor2tensor.py` compares them with the published code."""

from __future__ import annotations

import numpy as np
import pytest

from bpejit.errors import BpejitError, OutputError
from bpejit.subword import (
    EOS_ID,
    ByteTextEncoder,
    ClassLabelEncoder,
    OneHotClassLabelEncoder,
    RealEncoder,
    TextEncoder,
    TokenTextEncoder,
    strip_ids,
)


def test_numbers():
    encoder = TextEncoder()
    assert encoder.encode(" 0 5\n-3") == [2, 7, -1]
    assert encoder.decode([2, 7, -1, EOS_ID, 0]) == "0 5 -3 <EOS> <pad>"
    assert encoder.decode(np.array([2, 7, EOS_ID, 0]), strip_extraneous=True) == "0 5"
    assert TextEncoder(0).encode("5") == [5]
    assert TextEncoder(None).num_reserved_ids is None
    with pytest.raises(ValueError, match="not a list of numbers"):
        encoder.encode("five")
    with pytest.raises(BpejitError, match="the reserved id 3 has no token"):
        TextEncoder(5).decode([3])
    with pytest.raises(NotImplementedError):
        _ = encoder.vocab_size
    assert strip_ids([5, 1, 0, 1], [0, 1]) == [5]


def test_bytes():
    encoder = ByteTextEncoder()
    assert encoder.encode("aé") == encoder.encode("aé".encode()) == [99, 197, 171]
    assert encoder.vocab_size == 258
    assert encoder.decode([99, 197, 171, 1, 0]) == "aé<EOS><pad>"
    assert encoder.decode([99, 197, 171, 1, 0], strip_extraneous=True) == "aé"
    assert encoder.decode([99, 197]) == "a\ufffd"
    assert encoder.decode_list([0, 99]) == [b"<pad>", b"a"]
    assert ByteTextEncoder(0).encode("a") == [97]
    for token_id in (-1, 258):
        with pytest.raises(BpejitError, match="is not a byte; expected 0 to 257"):
            encoder.decode([token_id])
    with pytest.raises(ValueError, match="which UTF-8 cannot represent"):
        encoder.encode("\ud800")


def test_listed_tokens(tmp_path):
    encoder = TokenTextEncoder(None, vocab_list=iter(["low", "<EOS>", "lower", "low"]))
    assert encoder.encode(" lower\u3000low ") == [3, 4]
    assert encoder.decode([2, 3, 4, 1, 99], strip_extraneous=True) == "low lower low <EOS> ID_99"
    assert encoder.vocab_size == 5
    encoder.store_to_file(tmp_path / "tokens")
    assert (tmp_path / "tokens").read_bytes() == b"<pad>\n<EOS>\nlow\nlower\nlow\n"
    with pytest.raises(OutputError):
        encoder.store_to_file(tmp_path / "tokens", overwrite=False)
    TokenTextEncoder(None, vocab_list=["new"]).store_to_file(tmp_path / "tokens")
    assert (tmp_path / "tokens").read_bytes() == b"<pad>\n<EOS>\nnew\n"
    encoder.store_to_file(tmp_path / "tokens", overwrite=True)
    again = TokenTextEncoder(tmp_path / "tokens", reverse=True, replace_oov="lower", num_reserved_ids=0)
    assert again.encode("low new") == [3, 4]
    assert again.decode([3, 4]) == again.decode(np.array([3, 4])) == "low lower"
    assert again.num_reserved_ids == 0
    for published in (KeyError, ValueError):
        with pytest.raises(published, match=r"^the token 'new' is not in the vocabulary of 4 tokens"):
            encoder.encode("low new")
    with pytest.raises(KeyError, match="the token '<unk>' is not"):
        TokenTextEncoder(None, vocab_list=["a"], replace_oov="<unk>").encode("b")
    (tmp_path / "spaced").write_bytes(b" a b \r\n\n\x85c")
    assert TokenTextEncoder(tmp_path / "spaced").decode_list(range(4)) == ["a b", "", "\udc85c", "ID_3"]
    with pytest.raises(BpejitError, match="vocab_filename and vocab_list are None"):
        TokenTextEncoder(None)
    with pytest.raises(BpejitError, match="there is no such file"):
        TokenTextEncoder(tmp_path / "missing")


def test_class_labels(tmp_path):
    encoder = ClassLabelEncoder(["neg", "pos"])
    assert (encoder.encode("pos"), encoder.vocab_size, encoder.num_reserved_ids) == (1, 2, 0)
    assert encoder.decode(1) == encoder.decode([1]) == encoder.decode(np.array([[1]])) == "pos"
    assert encoder.decode_list([0, 1]) == ["neg", "pos"]
    for mark in (b"", b"\xef\xbb\xbf"):
        (tmp_path / "labels").write_bytes(mark + b"neg \r\npos\n")
        assert ClassLabelEncoder(class_labels_fname=tmp_path / "labels").decode_list([0, 1]) == ["neg", "pos"]
        assert TokenTextEncoder(tmp_path / "labels", num_reserved_ids=0).decode_list([0, 1]) == ["neg", "pos"]
    with pytest.raises(ValueError, match=r"the class label 'x' is not in the list; expected one of \['neg', 'pos'\]"):
        encoder.encode("x")
    for wrong in ([0, 1], 2, "a"):
        with pytest.raises(BpejitError, match="expected"):
            encoder.decode(wrong)
    with pytest.raises(BpejitError, match="there are no class labels"):
        ClassLabelEncoder([])


def test_one_hot_class_labels():
    encoder = OneHotClassLabelEncoder(["a", "b", "c"])
    assert encoder.encode("b") == [0, 1, 0]
    assert encoder.encode("b", on_value=5, off_value=-1) == [-1, 5, -1]
    assert encoder.decode([0, 0, 1]) == encoder.decode(np.array([[0], [0], [1]])) == "c"
    for wrong in ([0, 1], [0, 0, 0], 1):
        with pytest.raises(BpejitError, match="expected a list of 3 numbers"):
            encoder.decode(wrong)


def test_real_numbers():
    assert RealEncoder().encode("1.5 -2e3") == [1.5, -2000.0]
    assert RealEncoder().decode([1.5, 2]) == "1.5 2"
