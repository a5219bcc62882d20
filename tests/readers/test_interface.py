"""Comparison of `as_hf` with transformers 5 in an environment of its own; run by `make readers` (see `test_acceptance.py`)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from helpers.compat import END, listed_tokenizer

PYTHON = Path(os.environ.get("BPEJIT_READERS", ROOT / ".readers")) / "transformers5" / "bin" / "python"

SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy, transformers
transformers.logging.set_verbosity_error()
folder, cases = sys.argv[1], json.load(sys.stdin)

def plain(value):
    if isinstance(value, transformers.AddedToken):
        return [value.content, value.single_word, value.lstrip, value.rstrip, value.normalized, value.special]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value

results = []
for steps in cases:
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    found = []
    for name, arguments, options in steps:
        try:
            value = len(tokenizer) if name == "len" else getattr(tokenizer, name)
            found.append(plain(value(*arguments, **options) if callable(value) else value))
        except Exception as error:
            found.append("error")
    results.append(found)
json.dump(results, sys.stdout)
"""

CHATML = (
    "{% for message in messages %}\n"
    "    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>' + '\\n' }}\n"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

TOOLS = (
    "{{ bos_token }}{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}{% for document in documents or [] %}"
    "[{{ document.title }}]{% endfor %}{% set ns = namespace(count=0) %}{% for message in messages %}"
    "{% if message.role == 'bad' %}{{ raise_exception('bad role') }}{% endif %}"
    "{% if message.role == 'last' %}{% break %}{% endif %}"
    "{% set ns.count = ns.count + 1 %}{{ ns.count }}"
    "{{ message.content if message.content is string else message.content[0].text }}"
    "{% if message.tool_calls %}{{ message.tool_calls | tojson }}{% endif %}"
    "{% generation %}{{ message.reasoning_content }}{{ message.thinking }}{% endgeneration %}"
    "{{ eos_token }}{% endfor %}{{ extra }}"
)

USER = {"role": "user", "content": "Hello <b>&é</b>, <|im_end|> world "}
ASSISTANT = {"role": "assistant", "content": " An answer", "tool_calls": None}
CHAT = [USER, ASSISTANT]
CALL = {
    "role": "assistant",
    "content": [{"type": "text", "text": "x"}],
    "thinking": "hm",
    "tool_calls": [{"name": "f", "arguments": {"é": "<"}}],
}

CHATS: list[tuple[Any, dict[str, Any]]] = [
    (CHAT, {}),
    (CHAT, {"tokenize": False}),
    (CHAT, {"tokenize": False, "add_generation_prompt": True}),
    ([CHAT, [USER]], {"add_generation_prompt": True}),
    ([CHAT, [USER]], {"padding": True, "return_tensors": "np"}),
    ([CHAT, [USER]], {"return_tensors": "np"}),
    (CHAT, {"return_tensors": "np"}),
    (CHAT, {"return_dict": False}),
    (CHAT, {"truncation": True, "max_length": 7}),
    (CHAT, {"tokenizer_kwargs": {"return_offsets_mapping": True}}),
    (CHAT, {"continue_final_message": True, "tokenize": False}),
    (CHAT, {"continue_final_message": "role", "tokenize": False}),
    ([USER], {"continue_final_message": True, "tokenize": False}),
    ([*CHAT, CALL], {"chat_template": TOOLS, "tokenize": False}),
    ([CALL], {"chat_template": TOOLS, "tokenize": False, "continue_final_message": True}),
    ([CALL], {"chat_template": TOOLS, "tokenize": False, "continue_final_message": "thinking"}),
    (CHAT, {"chat_template": TOOLS, "tokenize": False, "tools": [{"name": "f<é>"}], "documents": [{"title": "T", "text": ""}]}),
    (CHAT, {"chat_template": TOOLS, "tokenize": False, "extra": [1, 2.5, None]}),
    ([USER, {"role": "last"}, USER], {"chat_template": TOOLS, "tokenize": False}),
    ([{"role": "bad"}], {"chat_template": TOOLS}),
    (CHAT, {"continue_final_message": True, "add_generation_prompt": True}),
    ([{"role": "user"}], {"continue_final_message": True}),
    ([], {}),
    (CHAT, {"chat_template": "{{ messages[0].__class__.__mro__ }}"}),
    (CHAT, {"chat_template": "{{ messages.append(1) }}"}),
    (CHAT, {"chat_template": "{{ dict.__base__ }}|{{ dict(a=1).a }}", "tokenize": False}),
    (CHAT, {"chat_template": "{% set ns = namespace(_x=1) %}"}),
    (CHAT, {"chat_template": "{{ strftime_now('%Y') }}", "tokenize": False}),
    (CHAT, {"chat_template": "{{ 'x'"}),
]

TEXT = "one new token <x>, <|y|> and é<x> <s>"

ADDING = [
    [["add_tokens", [["<x>", "<|y|>"]], {}]],
    [["add_tokens", ["<x>"], {"special_tokens": True}], ["decode", [[300, 301, 302]], {"skip_special_tokens": True}]],
    [["add_tokens", [["<x>", "<x>", "", "<s>"]], {}]],
    [["add_tokens", [["<s>"]], {"special_tokens": True}]],
    [["add_tokens", [["a", "the"]], {}]],
    [["add_tokens", [[]], {}]],
    [["add_special_tokens", [{"pad_token": "<pad>", "extra_special_tokens": ["<x>"]}], {}], ["pad_token_id", [], {}]],
    [["add_special_tokens", [{"additional_special_tokens": ["<x>", "<s>"]}], {}], ["all_special_tokens", [], {}]],
    [
        ["add_special_tokens", [{"extra_special_tokens": ["<x>"]}], {}],
        ["add_special_tokens", [{"extra_special_tokens": ["<|y|>"]}], {"replace_extra_special_tokens": False}],
        ["all_special_tokens", [], {}],
    ],
    [["add_special_tokens", [{"no_token": "<x>"}], {}]],
]

SHOWN = [
    ["len", [], {}],
    ["vocab_size", [], {}],
    ["added_tokens_encoder", [], {}],
    ["added_tokens_decoder", [], {}],
    ["get_added_vocab", [], {}],
    ["__call__", [TEXT], {"return_offsets_mapping": True}],
    ["tokenize", [TEXT], {}],
    ["__call__", [["a", "b c d"]], {"return_tensors": "np", "return_offsets_mapping": True}],
    ["__call__", [["a", "b"]], {"return_tensors": "np"}],
]

CASES = [[["apply_chat_template", [conversation], options]] for conversation, options in CHATS] + [
    [*steps, *SHOWN] for steps in ADDING
]


def plain(value: Any) -> Any:
    if hasattr(value, "content"):
        return [value.content, value.single_word, value.lstrip, value.rstrip, value.normalized, value.special]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "tokenizer"
    listed_tokenizer().as_hf(bos_token="<s>", eos_token=END, pad_token="<|im_end|>", chat_template=CHATML).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[Any]:
    if not PYTHON.exists():
        pytest.skip("needs the environment transformers5: run `make readers`")
    command = [PYTHON, "-c", SCRIPT, folder]
    done = subprocess.run(command, input=json.dumps(CASES), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("number", range(len(CASES)))
def test_equals_transformers(number: int, expected: list[Any]) -> None:
    ours = listed_tokenizer().as_hf(bos_token="<s>", eos_token=END, pad_token="<|im_end|>", chat_template=CHATML)
    for (name, arguments, options), theirs in zip(CASES[number], expected[number], strict=True):
        try:
            value = len(ours) if name == "len" else getattr(ours, name)
            found = plain(value(*arguments, **options) if callable(value) else value)
        except ValueError:
            found = "error"
        assert found == theirs, (name, arguments, options)
