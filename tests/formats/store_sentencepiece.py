"""Store two small models of SentencePiece, and what `sentencepiece` gives for them, in `sentencepiece.json`.

`python tests/formats/store_sentencepiece.py`, with `sentencepiece` and `protobuf` installed.
"""

from __future__ import annotations

import base64
import io
import json
import tempfile
from pathlib import Path
from typing import Any

RULES = {
    "\uff21": "A",
    "\uff0c": ",",
    "A\u030a": "\u00c5",
    "e\u0301": "\u00e9",
    "\n": " ",
    "\t": " ",
    "\ufb01": "fi",
    "\u200b": "",
    "\u00a8": " \u0308",
}

TEXTS = [
    *(
        "",
        " ",
        "\n\n",
        "Hello world",
        "  two  spaces  ",
        "a\tb\nc",
        "\ufb01ne \ufb01re",
        "\uff21\uff0cA\u030ae\u0301",
        "x\u200by \u00a8",
    ),
    *(
        "\u6587\u5b57\u3002\u65e5\u672c",
        "\U0001f642\U0001f642 ok",
        "<sep><mask><s>",
        "a<sep> b \u2581\u2581\u2581 c",
        "    indented\n        twice",
    ),
    *("fi\ufb01fi", "\x00\x07", "\u2581", "The quick brown fox, said she; \u201cnever\u201d."),
]


def store(path: Path) -> None:
    """Train the models and write the file."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    data = Path(__file__).parents[1] / "data"
    lines = [line for line in (data / "prose.txt").read_text("utf-8").splitlines()[:600] if line]
    found: dict[str, Any] = {}
    for name, options in (
        ("words", {"byte_fallback": False}),
        ("bytes", {"byte_fallback": True, "remove_extra_whitespaces": False}),
    ):
        out = io.BytesIO()
        with tempfile.TemporaryDirectory() as folder:
            rules = Path(folder) / "rules.tsv"
            rows = ("\t".join(" ".join(f"{ord(one):X}" for one in text) for text in rule) for rule in RULES.items())
            rules.write_text("\n".join(rows) + "\n")
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=out,
                vocab_size=600,
                model_type="bpe",
                normalization_rule_tsv=str(rules),
                user_defined_symbols=["<sep>", "fi", "\u2581\u2581"],
                control_symbols=["<mask>"],
                minloglevel=9,
                **options,
            )
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString(out.getvalue())
        model.trainer_spec.Clear()
        model.trainer_spec.model_type, model.trainer_spec.byte_fallback = 2, options["byte_fallback"]
        model.normalizer_spec.ClearField("normalization_rule_tsv")
        content = model.SerializeToString()
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        cases = []
        for text in TEXTS:
            result = processor.encode(text, return_type="offset_mapping", return_bytes=True)
            ids = processor.encode(text)
            cases.append({"text": text, "ids": ids, "offsets": result["offsets"], "decoded": processor.decode(ids)})
        found[name] = {"model": base64.b64encode(content).decode(), "cases": cases}
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    store(Path(__file__).with_name("sentencepiece.json"))
