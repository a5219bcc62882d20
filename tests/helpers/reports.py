"""Vocabularies for the tests of reports: a large one, and one with hostile tokens."""

from __future__ import annotations

import random

from bpejit.model import Model

HOSTILE = (
    b"</script><script>window.hacked=1</script>",
    b"<img src=x onerror='window.hacked=1'>",
    b'"><svg onload=window.hacked=1>',
    b"<!--",
    b"]]>",
    b"&lt;b&gt;",
    b"\x1b[31mred",
    b"\x00\x07\x08",
    "\u202egnp.exe\u2066".encode(),
    "\u2028\u2029\ufeff\u00ad".encode(),
    "\u0301mark".encode(),
    b"\xe4\xb8",
    b"\xff\xfe",
    "\U000e0041\u200d".encode(),
    b"someone@example.com",
    "Ã©tÃ©".encode(),
    b"=" * 64,
    b"${window.hacked=1}",
    b"'; window.hacked=1; '",
)


def hostile_model() -> Model:
    """Make a model with hostile tokens, both ordinary and special."""
    tokens = [bytes([byte]) for byte in range(256)]
    known, merges = set(tokens), []
    for token in HOSTILE:
        for size in range(2, len(token) + 1):
            if token[:size] not in known:
                merges.append((token[: size - 1], token[size - 1 : size]))
                tokens.append(token[:size])
                known.add(token[:size])
    specials = {"<|</title><script>window.hacked=1</script>|>": len(tokens), "<|\u202e|>": len(tokens) + 1}
    training = {"inputs": [{"path": "<script>window.hacked=1</script>.txt", "bytes": 1}], "<b>key</b>": "\x1b[31m"}
    return Model(dict(enumerate(tokens)), merges, specials, training=training)


def large_model(n_tokens: int = 256_000) -> Model:
    """Make a model with many tokens, of which each is merged from two that are before it."""
    source = random.Random(7)
    tokens = [bytes([byte]) for byte in range(256)]
    known, merges = set(tokens), []
    letters = [tokens[byte] for byte in b" etaoinshrdlucmfw"]
    while len(tokens) < n_tokens:
        left = tokens[source.randrange(256, len(tokens))] if merges else letters[0]
        right = source.choice(letters) if len(tokens) < 40_000 else tokens[source.randrange(256, 40_000)]
        if len(left) + len(right) <= 24 and left + right not in known:
            known.add(left + right)
            merges.append((left, right))
            tokens.append(left + right)
        elif len(tokens) < 40_000:  # start anew with two letters
            left, right = source.choice(letters), source.choice(letters)
            if left + right not in known:
                known.add(left + right)
                merges.append((left, right))
                tokens.append(left + right)
    return Model(dict(enumerate(tokens)), merges, {"<|endoftext|>": n_tokens})
