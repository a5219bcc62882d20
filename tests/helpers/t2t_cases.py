"""Cases that give the same results with the modules of Tensor2Tensor and with those of bpejit.

This file uses only the standard library: it also runs in the environment of Tensor2Tensor (`tests/readers/published_t2t.py`),
and its results there are stored in `tests/t2t/published.json` for the tests that run without that environment.
"""

# ruff: noqa: B023 - functions are called in the iteration that defines them

from __future__ import annotations

import hashlib
import io
import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Modules(NamedTuple):
    """What a case may use: two modules, and the vocabulary built from a file in which each line is a text."""

    text_encoder: Any
    tokenizer: Any
    train: Callable[[Path, int, float | None], Any]
    pack_examples: Callable[..., Any]


LANGUAGES = {
    "english": ("LATIN", 2000, None),
    "russian": ("CYRILLIC", 2000, None),
    "japanese": ("HIRAGANA", 2000, 12),
    "chinese": ("CJK", 3000, 20),
    "korean": ("HANGUL", 2000, None),
    "thai": ("THAI", 1000, 8),
    "hindi": ("DEVANAGARI", 1000, None),
}
"""The script, the size of the vocabulary and the maximum length of its subtokens."""

MOST_BYTES = 120_000
"""Size of the text of each language."""

TRICKY = [
    "",
    " ",
    "  ",
    "a",
    " a",
    "a ",
    "a b",
    "a  b",
    "Dude - that's so cool.",
    "x²Ⅷ½ ٣٤ 三_二 a\u0301b",
    "tab\tnew\nline\r\nno-break\xa0ideographic\u3000zero\u200bwidth\ufeff",
    "under_score back\\slash \\u \\\\ \\95; \\9999999999; ; 0 12 <pad> <EOS> <pad>_ EOS",
    "emoji \U0001f600\U0001f468\u200d\U0001f469 astral \U00020000\U0010ffff private \ue000",
    "ÀÉ ß İi \u017f ﬁ ǅ ª º",
    "한국어 ภาษาไทย हिन्दी русский 日本語テキスト",
    "'quoted' \"double\" `back`",
]

COUNTS = {
    "low": 5,
    "lower": 2,
    "newest": 6,
    "widest": 3,
    ", ": 9,
    "_": 2,
    "\\": 1,
    "a_b": 4,
    "\n": 1,
    "日本": 3,
    "日本語": 2,
    "": 1,
}

RESERVED = ["<pad>", "<EOS>", "<a_b>", "back\\slash", "new\nline", "é", "low", "x", "low", ""]

WORDS = ["the quick brown fox", "the then there", "low lower lowest _under_ \\back", "日本語 日本 本", "x x x <EOS> <pad>"]

VOCABULARIES = {
    "quoted": "'<pad>_'\n'<EOS>_'\n'the_'\n'a'\n' '\n'''\n'\"'\n't'\n'h'\n'e'\n'_'\n'\\'\n'u'\n';'\n'0'\n",
    "plain": "<pad>\n<EOS>\nthe_\na\n \n, \n'\n\"\nt\nh\ne\n_\n\\\nu\n;\n3\n2\n9\n",
    "double": '"<pad>"\n"<EOS>"\n"the_"\n"a"\n',
    "mixed": " '<pad>'\n'<EOS>' \n\n\n'a\nb'\n'\n'\n_\n\\\n;\n1\n0\n5\n",
    "without end": "<pad>_\n<EOS>_\nx\n_",
}


def plain(value: Any) -> Any:
    """Return a value that JSON can represent."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bytes):
        return {"bytes": value.decode("latin-1")}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def outcome(case: Callable[[], Any]) -> Any:
    """Return the result of a case, or the names of the classes of its error."""
    try:
        return plain(case())
    except Exception as error:  # noqa: BLE001, RUF100 - any error is a result
        return {"error": [cls.__name__ for cls in type(error).__mro__]}


def agree(ours: Any, published: Any) -> bool:
    """Return True if two results are equal. An error may be a subclass of the published one."""
    if isinstance(published, dict) and "error" in published:
        return isinstance(ours, dict) and "error" in ours and published["error"][0] in ours["error"]
    if isinstance(published, dict) and isinstance(ours, dict):
        return ours.keys() == published.keys() and all(agree(ours[key], published[key]) for key in published)
    if isinstance(published, list) and isinstance(ours, list):
        return len(ours) == len(published) and all(map(agree, ours, published))
    return bool(ours == published)


def sha256(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(plain(value), sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()


def select_languages(english: str, multilingual: str) -> dict[str, str]:
    """Return the text of each language: documents of the corpora in order, up to MOST_BYTES."""
    wanted = {script: name for name, (script, _, _) in LANGUAGES.items()}
    found: dict[str, list[str]] = {name: [] for name in LANGUAGES}
    sizes = dict.fromkeys(LANGUAGES, 0)
    for source, corpus in (("english", english), ("", multilingual)):
        for document in corpus.split("\n<|endoftext|>\n"):
            scripts = [unicodedata.name(letter, "?").split(" ")[0] for letter in document[::37] if letter.isalpha()]
            name = wanted.get(max(sorted(set(scripts)), key=scripts.count)) if scripts else None
            if name is None or (name == "english") != (source == "english"):
                continue
            left = MOST_BYTES - sizes[name]
            if left > 0:
                found[name].append(document.encode()[:left].decode("utf-8", "ignore"))
                sizes[name] += len(found[name][-1].encode())
    return {name: "\n".join(documents) for name, documents in found.items()}


def loaded(modules: Modules, text: str) -> Any:
    encoder = modules.text_encoder.SubwordTextEncoder()
    encoder._load_from_file_object(io.StringIO(text, newline="\n"))
    return encoder


def built(modules: Modules, *arguments: Any, **options: Any) -> Any:
    return modules.text_encoder.SubwordTextEncoder.build_to_target_size(*arguments, **options)


def described(encoder: Any, folder: Path, texts: list[str]) -> dict[str, Any]:
    """Store a vocabulary with and without quotes, read it again, and encode texts with each."""
    found: dict[str, Any] = {"size": encoder.vocab_size, "first": encoder.all_subtoken_strings[:12]}
    found["strings"] = sha256(encoder.all_subtoken_strings)
    for quotes in (True, False):
        path = folder / f"vocabulary-{quotes}"
        path.unlink(missing_ok=True)
        encoder.store_to_file(str(path), add_single_quotes=quotes)
        again = type(encoder)(str(path))
        # Without quotes, subtokens of white space are lost, so that some texts cannot be encoded.
        ids = outcome(lambda: sha256([again.encode(text) for text in texts]))
        found[f"quotes {quotes}"] = [sha256(path.read_bytes()), again.vocab_size, ids]
    ids = [encoder.encode(text) for text in texts]
    found["ids"] = [sum(map(len, ids)), sha256(ids)]
    found["decoded"] = [encoder.decode(some) for some in ids] == texts
    return found


def language_results(modules: Modules, name: str, folder: Path) -> dict[str, Any]:
    """Build vocabularies from the file of a language."""
    _, size, bound = LANGUAGES.get(name, ("", 1500, 20))
    data = (folder / f"{name}.txt").read_bytes()
    lines = [line.replace("\r", "").strip() for line in data.decode().split("\n")]
    build = modules.text_encoder.SubwordTextEncoder.build_from_generator
    encoder = build(iter(lines), size, max_subtoken_length=bound)
    found = {"text": sha256(data), "lines": described(encoder, folder, lines)}
    found["file"] = described(modules.train(folder / f"{name}.txt", 500, None), folder, lines[:200])
    found["sample"] = described(modules.train(folder / f"{name}.txt", 300, 10_000), folder, lines[:200])
    return found


def small_results(modules: Modules, folder: Path) -> dict[str, Any]:
    """Return the results of all other cases."""
    t, k = modules.text_encoder, modules.tokenizer
    found: dict[str, Any] = {}
    found["split"] = [outcome(lambda: k.encode(text)) for text in TRICKY]
    found["join"] = [outcome(lambda: k.decode(k.encode(text))) for text in TRICKY]
    found["join words"] = k.decode(["a", "b", " ", "c", ",", ",", "d"])
    alphabet = set("abc\\_u;0123456789\n")
    found["escape"] = [t._escape_token(text, alphabet) for text in TRICKY]
    found["unescape"] = [t._unescape_token(text) for text in [*TRICKY, "\\1114112;\\55296;\\9_", "__", "\\"]]
    for number, options in enumerate(
        [
            {},
            {"num_iterations": 0},
            {"num_iterations": 1},
            {"num_iterations": 7},
            *({"max_subtoken_length": bound} for bound in (-1, 0, 1, 2, 3, 6, 7, 8, 100)),
            {"reserved_tokens": RESERVED},
            {"reserved_tokens": RESERVED, "num_iterations": 1},
            {"reserved_tokens": ["<pad>"]},
            {"reserved_tokens": []},
            {"reserved_tokens": ["<EOS>", "<pad>"]},
        ]
    ):
        for target, low, high in ((60, 1, 4), (45.5, 2, 2), (40, 2.5, 3), (1, 1, 10), (0, 1, 2), (9, 3, 2))[
            : 6 if not options else 2
        ]:

            def build(target: float = target, low: float = low, high: float = high, options: dict[str, Any] = options) -> Any:
                encoder = built(modules, target, COUNTS, low, high, **options)
                strings = encoder.all_subtoken_strings
                if options.get("num_iterations") == 0:  # the order of the alphabet is that of a set
                    n = 2
                    return [strings[:n], sorted(strings[n:])]
                return [strings, encoder.encode_without_tokenizing("low_er\n<EOS>"), encoder.decode(range(len(strings)))]

            found[f"build {number} {target} {low} {high}"] = outcome(build)
        for count in (-3, 1, 2, 2.5, 100) if not options else (2,):

            def count_build(count: float = count, options: dict[str, Any] = options) -> Any:
                encoder = t.SubwordTextEncoder()
                encoder.build_from_token_counts(COUNTS, count, **options)
                return sorted(encoder.all_subtoken_strings)

            found[f"counts {number} {count}"] = outcome(count_build)
    found["words"] = described(t.SubwordTextEncoder.build_from_generator(WORDS, 60), folder, WORDS)
    found["words, reserved"] = outcome(
        lambda: t.SubwordTextEncoder.build_from_generator(WORDS, 60, 5, RESERVED).all_subtoken_strings
    )
    encoder = t.SubwordTextEncoder.build_from_generator(WORDS, 60)
    found["encode"] = [outcome(lambda: encoder.encode(text)) for text in TRICKY]
    found["encode one token"] = [outcome(lambda: encoder.encode_without_tokenizing(text)) for text in TRICKY]
    found["encode bytes"] = encoder.encode("the é".encode())
    found["decode"] = [outcome(lambda: encoder.decode(encoder.encode(text))) for text in TRICKY]
    ids = [*encoder.encode("the low"), 1, 0, -1, 10**6, 1, 0, 0]
    found["decode ids"] = [
        outcome(case)
        for case in (
            lambda: encoder.decode(ids),
            lambda: encoder.decode(ids, strip_extraneous=True),
            lambda: encoder.decode([0, 1, 0], strip_extraneous=True),
            lambda: encoder.decode(tuple(ids)),
            lambda: encoder.decode_list(ids),
            lambda: encoder.decode([]),
            lambda: encoder.decode_list([]),
            lambda: encoder.decode(list(range(encoder.vocab_size))),
            lambda: encoder.num_reserved_ids,
            lambda: t.SubwordTextEncoder(str(folder / "missing")),
        )
    ]
    for name, text in VOCABULARIES.items():
        encoder = loaded(modules, text)
        (folder / "loaded").write_bytes(text.encode())
        found[f"load {name}"] = [
            encoder.all_subtoken_strings,
            t.SubwordTextEncoder(str(folder / "loaded")).all_subtoken_strings,
            *(outcome(lambda: encoder.encode(line)) for line in ["the", "a", "the, the", "' \"", "é", "xx", "\n"]),
            encoder.decode(range(-1, 20)),
        ]
    found.update(other_encoders(modules, folder))
    found["pack"] = [outcome(lambda: sha256(list(modules.pack_examples(*a, **b)))) for a, b in packing_cases()]
    return found


def other_encoders(modules: Modules, folder: Path) -> dict[str, Any]:
    """Return the results of the small encoders."""
    t = modules.text_encoder
    found: dict[str, Any] = {}
    tokens, labels = folder / "tokens", folder / "labels"
    tokens.write_bytes(b"<pad>\n<EOS>\n low \nlower\r\n\nlow\n")
    labels.write_bytes(b" neg\npos \r\nneutral")
    cases: list[Callable[[], Any]] = []
    for reserved in (0, 2):
        text, some = t.TextEncoder(reserved), t.ByteTextEncoder(reserved)
        cases += [
            lambda e=text: e.encode(" 3 14\t15\n"),
            lambda e=text: e.encode("3 x"),
            lambda e=text: e.decode([5, 0, 1, 7, 1, 0]),
            lambda e=text: e.decode([5, 0, 1, 7, 1, 0], strip_extraneous=True),
            lambda e=text: e.decode_list([0, 1, 2, -4]),
            lambda e=text: e.num_reserved_ids,
            lambda e=text: e.vocab_size,
            lambda e=some: [e.encode(line) for line in TRICKY],
            lambda e=some: [e.decode(e.encode(line)) for line in TRICKY],
            lambda e=some: e.decode([0, 1, 99, 197, 171, 197, 1, 0]),
            lambda e=some: e.decode([0, 1, 99, 197, 171, 1, 0], strip_extraneous=True),
            lambda e=some: e.decode_list([0, 1, 99, 197]),
            lambda e=some: e.vocab_size,
        ]
    cases.append(lambda: t.TextEncoder().vocab_size)

    def stored(encoder: Any) -> str:
        path = folder / "stored"
        path.unlink(missing_ok=True)
        encoder.store_to_file(str(path))
        return path.read_text(encoding="utf-8")

    for options in (
        {"vocab_filename": str(tokens)},
        {"vocab_filename": str(tokens), "reverse": True, "replace_oov": "lower"},
        {"vocab_filename": None, "vocab_list": ["low", "<EOS>", "lower", "low", "<unk>"], "replace_oov": "<unk>"},
        {"vocab_filename": None, "vocab_list": ["a", "b"], "replace_oov": "<unk>", "num_reserved_ids": 0},
        {"vocab_filename": "", "vocab_list": []},
    ):
        listed = t.TokenTextEncoder(**options)
        cases += [
            lambda e=listed: e.encode(" low  lower\u3000low\n"),
            lambda e=listed: e.encode("low new"),
            lambda e=listed: e.encode("a b"),
            lambda e=listed: e.encode(""),
            lambda e=listed: e.decode([2, 3, 4, 99, -1, 1, 0]),
            lambda e=listed: e.decode([2, 1, 0], strip_extraneous=True),
            lambda e=listed: e.decode_list([0, 1, 2, 3]),
            lambda e=listed: [e.vocab_size, e.num_reserved_ids],
            lambda e=listed: stored(e),
        ]
    for listed in (
        t.ClassLabelEncoder(["neg", "pos"]),
        t.ClassLabelEncoder(class_labels_fname=str(labels)),
        t.ClassLabelEncoder(["unused"], str(labels)),
    ):
        cases += [
            lambda e=listed: e.encode("pos"),
            lambda e=listed: e.encode("neutral"),
            lambda e=listed: e.encode("other"),
            lambda e=listed: e.decode(1),
            lambda e=listed: e.decode([0]),
            lambda e=listed: e.decode_list([1, 0]),
            lambda e=listed: [e.vocab_size, e.num_reserved_ids],
        ]
    one_hot = t.OneHotClassLabelEncoder(["a", "b", "c"])
    cases += [
        lambda: one_hot.encode("b"),
        lambda: one_hot.encode("b", on_value=3, off_value=-1),
        lambda: one_hot.encode("x"),
        lambda: one_hot.decode([0, 0, 1]),
        lambda: one_hot.vocab_size,
        lambda: t.RealEncoder().encode("1.5 2 -3e2 inf"),
        lambda: t.RealEncoder().encode("x"),
        lambda: t.RealEncoder().decode([1.5, 2, 1e100]),
        lambda: [t.PAD, t.EOS, t.PAD_ID, t.EOS_ID, t.RESERVED_TOKENS, t.NUM_RESERVED_TOKENS, t.RESERVED_TOKENS_BYTES],
        lambda: t.strip_ids([5, 1, 0, 1], [0, 1]),
        lambda: t.strip_ids([1, 0], [0, 1]),
    ]
    found["other encoders"] = [outcome(case) for case in cases]
    return found


def packing_cases() -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return arguments of `pack_examples`."""
    lengths = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5]
    examples = [
        {"inputs": list(range(2, 2 + n)), "targets": list(range(50, 50 + m))}
        for n, m in zip(lengths, [*lengths[7:], *lengths[:7]])  # noqa: B905 - also runs with older Python
    ]
    cases: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    for has_inputs in (False, True):
        options: list[dict[str, Any]] = [
            {},
            {"packed_length": 10},
            {"packed_length": 8, "spacing": 0},
            {"packed_length": 12, "spacing": 1, "queue_size": 2},
            {"packed_length": 5, "spacing": 3, "queue_size": 1},
            {"packed_length": 4, "chop_long_sequences": not has_inputs},
            {"packed_length": 20, "queue_size": 100},
        ]
        cases += [((examples, has_inputs), chosen) for chosen in options]
    empty = [{"targets": list(range(5, 5 + n))} for n in (0, 2, 0, 0, 3, 0, 1)]
    cases += [((empty, False), {"packed_length": 9, "spacing": spacing}) for spacing in (0, 1)]
    cases.append((([], False), {}))
    return cases


def text_of(data: bytes) -> str:
    """Return the beginning of a file of `tests/data` as a text of whole lines."""
    return re.sub(r"[^\n]*\Z", "", data[:MOST_BYTES].decode("utf-8", "ignore"))
