"""Classes of tokenizers in transformers: what they add to the files of a tokenizer, by the name without `Fast`."""

from __future__ import annotations

from typing import Any

GPT2_CLASSES = ("GPT2Tokenizer", "CodeGenTokenizer")
ROBERTA_CLASSES = ("RobertaTokenizer", "BartTokenizer", "LongformerTokenizer", "LEDTokenizer", "MvpTokenizer")

PATTERNS = {**dict.fromkeys((*GPT2_CLASSES, *ROBERTA_CLASSES), "gpt2"), "Qwen2Tokenizer": "qwen2"}
"""The split patterns of classes that are read without a `tokenizer.json`."""

_END = "<|endoftext|>"
_GPT2 = {"bos_token": _END, "eos_token": _END, "unk_token": _END}
_BLOOM = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
_ROBERTA = {**_BLOOM, "sep_token": "</s>", "cls_token": "<s>", "mask_token": {"content": "<mask>", "lstrip": True}}
_DEBERTA = {"bos_token": "[CLS]", "eos_token": "[SEP]", "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
_COHERE = {"bos_token": "<BOS_TOKEN>", "eos_token": "<|END_OF_TURN_TOKEN|>", "unk_token": "<UNK>"}
_LEFT = {"padding_side": "left"}
DEFAULTS: dict[str, dict[str, Any]] = {
    **dict.fromkeys((*GPT2_CLASSES, "GPTNeoXTokenizer", "WhisperTokenizer"), _GPT2),
    **dict.fromkeys((*ROBERTA_CLASSES, "BlenderbotTokenizer"), _ROBERTA),
    "BloomTokenizer": _BLOOM,
    "LlamaTokenizer": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", **_LEFT},
    "CohereTokenizer": {**_COHERE, **_LEFT},
    "DebertaTokenizer": {**_DEBERTA, "cls_token": "[CLS]", "mask_token": {"content": "[MASK]", "lstrip": True}},
    "Qwen2Tokenizer": {"eos_token": _END, "unk_token": _END, "pad_token": _END},
    "PreTrainedTokenizer": {},
    "TokenizersBackend": {},
}
"""The settings of classes of transformers 4.57, by the name without `Fast`. They apply where the files lack a setting."""

ADDING_BOS = {"LlamaTokenizer": True, "CohereTokenizer": True, "GPTNeoXTokenizer": False}
"""Classes that replace the post-processor by `bos_token` and `eos_token` as the settings say, and the default for the first."""

REBUILT = {
    **dict.fromkeys((*GPT2_CLASSES, *ROBERTA_CLASSES, "DebertaTokenizer", "WhisperTokenizer"), (None, "gpt2")),
    "GPTNeoXTokenizer": ("NFC", "gpt2"),
    "CohereTokenizer": ("NFC", "starcoder"),
    "Qwen2Tokenizer": ("NFC", "qwen2"),
}
"""Classes for which transformers 5 replaces normalizer and pre-tokenizer of `tokenizer.json`, and what it makes instead."""

CLASS_OF_MODEL = {
    model: name
    for name, models in {
        "GPT2Tokenizer": "gpt2 gpt_bigcode gpt_neo gptj granite granitemoe granitemoehybrid granitemoeshared opt starcoder2 "
        "olmo3 flex_olmo dbrx exaone4",
        "CodeGenTokenizer": "codegen phi",
        "RobertaTokenizer": "roberta roberta-prelayernorm ibert mega mra data2vec-text",
        "BartTokenizer": "bart",
        "LongformerTokenizer": "longformer",
        "LEDTokenizer": "led",
        "MvpTokenizer": "mvp",
        "BlenderbotTokenizer": "blenderbot",
        "DebertaTokenizer": "deberta",
        "WhisperTokenizer": "whisper",
        "GPTNeoXTokenizer": "gpt_neox mpt olmo olmo2 olmoe rwkv stablelm mamba mamba2",
        "BloomTokenizer": "bloom",
        "LlamaTokenizer": "llama llama4 mistral mistral3 mixtral mllama phi3 phimoe deepseek_v2 deepseek_v3",
        "CohereTokenizer": "cohere cohere2",
        "Qwen2Tokenizer": "qwen2 qwen2_moe qwen2_vl qwen2_5_vl qwen3 qwen3_moe qwen3_next qwen3_vl qwen3_vl_moe",
    }.items()
    for model in models.split()
}
"""The class of a `model_type`, where no file names the class."""
