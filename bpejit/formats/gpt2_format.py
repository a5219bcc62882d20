"""The format of GPT-2's pair of files, with tokens and settings beside it as `AutoTokenizer` of transformers 4.57 reads them.

The class of the tokenizer, which `tokenizer_config.json` or `config.json` names, says what the pair does not contain: the split
pattern, the special tokens where the settings lack them, and the tokens around each text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpejit.errors import TokenizerFormatError, shorten, warn_user
from bpejit.formats.base import Given, TokenizerFormat, without_gz
from bpejit.formats.clip import CLASSES, WORD_END, added_tokens, class_of_pair, content_for, marks_words, model_from
from bpejit.formats.folder import TOKENIZER_FILE
from bpejit.formats.gpt2 import (
    MERGES_FILE,
    VOCAB_FILE,
    known_pair,
    pair_contents,
    pair_obstacle,
    read_gpt2_pair,
    read_merge_texts,
)
from bpejit.formats.huggingface_writing import CONFIG_FILE, byte_level, gpt2_config_json, pre_tokenizer_for
from bpejit.formats.missing_parts import TOOLS_UNICODE, Known, sidecar_json, sidecar_path
from bpejit.formats.settings_beside import (
    PATTERNS,
    ROBERTA_CLASSES,
    SETTINGS_FILES,
    adding_template,
    apply_settings,
    class_of,
    has_settings,
)
from bpejit.formats.tokenizer_files import TOKEN_BYTES_FILE, write_files
from bpejit.model import Model, pattern_source
from bpejit.normalization.byte_characters import CHARACTERS, decoded_or_none
from bpejit.normalization.pipeline_config import TokenFlags
from bpejit.splitting.presets import PRESETS, Pattern
from bpejit.storage.exchange import recover_description
from bpejit.storage.files import StrPath, parse_json, read_file
from bpejit.storage.outputs import check_output_folder, check_outputs, creating_folder
from bpejit.tokenizer_config import TokenizerConfig

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Gpt2Format(TokenizerFormat):
    """GPT-2's `vocab.json` and `merges.txt`."""

    name = "gpt2"
    expected = f"GPT-2's `{VOCAB_FILE}` with `{MERGES_FILE}` beside it"
    file_names = (VOCAB_FILE, MERGES_FILE, *SETTINGS_FILES)
    complete = False
    writable = True

    def find(self, folder: Path) -> list[Path]:
        """Return the vocabulary, unless the folder has a `tokenizer.json`, which is the same tokenizer in a newer format."""
        if (folder / TOKENIZER_FILE).exists() or not (folder / MERGES_FILE).exists():
            return []
        return super().find(folder)

    def locate(self, file: Path) -> Path | None:
        """Return the vocabulary; raise TokenizerFormatError for the merges."""
        if without_gz(file).name == MERGES_FILE:
            raise TokenizerFormatError(f"`{file}` is one of two files; expected the other, `{VOCAB_FILE}`: pass its path")
        return super().locate(file)

    def recognizes(self, head: bytes, content: Any) -> bool:  # noqa: ARG002
        """Return True for an object that maps texts to ids."""
        return isinstance(content, dict) and bool(content) and all(type(value) is int for value in content.values())

    def read(self, path: Path, **given: Unpack[Given]) -> Model:
        """Return the model in a vocabulary and the merges beside it; a pattern is needed unless they are known."""
        recover_description(sidecar_path(path), error=TokenizerFormatError)
        data = read_file(path, error=TokenizerFormatError, what="vocabulary")
        known = known_pair(path, data)
        pattern, specials = given.get("pattern"), given.get("special_tokens")
        if known is None:
            content = _other_content(path, data, None, **given)
            if content is not None:
                return model_from(content, path, given.get("unicode") or TOOLS_UNICODE)
        if known is None and pattern is None:
            raise TokenizerFormatError(
                f"`{path}` does not contain a split pattern; expected GPT-2's own file, or one that bpejit wrote, with its "
                "sidecar: pass `pattern=` (a preset's name or a regular expression), and `special_tokens=` if there are any"
            )
        found = known or Known("", {})
        specials = found.special_tokens if specials is None else specials
        return read_gpt2_pair(
            path,
            path.with_name(MERGES_FILE),
            specials,
            special_ids=specials if isinstance(specials, Mapping) else None,
            pattern=found.pattern if pattern is None else pattern,
            unicode=given.get("unicode") or found.unicode,
        )

    def read_folder(self, path: Path, **given: Unpack[Given]) -> Model:
        """Return the model in a pair with the tokens and settings beside it; without these if `special_tokens` are given."""
        if given.get("special_tokens") is not None or not has_settings(path.parent):
            return self.read(path, **given)
        from bpejit.formats.huggingface_reading import distinct_fields, model_from_json  # not at the top: it takes 30 ms

        pattern = given.get("pattern")
        folder, class_name = path.parent, class_of(path.parent)
        recover_description(sidecar_path(path), error=TokenizerFormatError)
        data = read_file(path, error=TokenizerFormatError, what="vocabulary")
        known = known_pair(path, data)
        vocab = parse_json(data, path, error=TokenizerFormatError, hook=distinct_fields)
        words = None
        if class_name in CLASSES or known is None:
            words = _word_content(path, vocab, class_name, pattern)
        chosen = pattern or (known.pattern if known is not None else None)
        found = PATTERNS.get(class_name or "GPT2Tokenizer", "gpt2")
        if words is None and chosen is None and class_name not in PATTERNS:
            return self.read(path, **given)  # says that the pattern is missing
        spellings = (PRESETS["gpt2"], PRESETS["r50k"]) if found == "gpt2" else (PRESETS[found],)
        if chosen is not None and pattern_source(chosen) not in spellings:
            warn_user(
                f"`{path}` is read with the pattern {shorten(chosen)}, without the tokens and settings beside it, which are "
                f"for the pattern {found}"
            )
            return self.read(path, **given)
        pair = {
            "normalizer": {"type": "NFC"} if found == "qwen2" else None,
            "pre_tokenizer": pre_tokenizer_for(PRESETS[found]),
            "decoder": byte_level(),
            "model": {
                "type": "BPE",
                "vocab": vocab,
                "merges": [*map(list, read_merge_texts(path.with_name(MERGES_FILE)))],
            },
        }
        content, config = apply_settings(words or pair, folder, class_name or "GPT2Tokenizer")
        if words is not None:
            return model_from(content, path, given.get("unicode") or TOOLS_UNICODE, config)
        content["post_processor"] = _post_processor(content, config, class_name, folder)
        if known is not None and pattern is None and _is_known(content, pair, known.special_tokens):
            return replace(self.read(path, **given), config=config)  # as it was before it was exported
        if chosen is None:
            warn_user(
                f"`{path}` does not contain a split pattern; it is read with the pattern {found}, since a file beside it "
                f"names the class {class_name}; pass `pattern=` for another"
            )
        unicode = given.get("unicode") or (known and known.unicode) or TOOLS_UNICODE
        try:
            return model_from_json(content, unicode=unicode, config=config)
        except TokenizerFormatError as error:
            self.read(path, pattern=found)  # raises an error of the two files alone
            raise TokenizerFormatError(f"`{path}`, with the settings beside it: {error}") from error

    def outputs(self, path: StrPath) -> list[Path]:
        """Return the paths of vocabulary, merges, configuration, sidecar and bytes of tokens in a folder."""
        folder = Path(path)
        vocab = folder / VOCAB_FILE
        return [vocab, folder / MERGES_FILE, folder / CONFIG_FILE, sidecar_path(vocab), folder / TOKEN_BYTES_FILE]

    def check_write(self, path: StrPath, *, inputs: Iterable[StrPath] = (), overwrite: bool = False) -> None:
        """Raise OutputError if the files cannot be written to a folder."""
        check_output_folder(path, [file.name for file in self.outputs(path)])
        check_outputs(self.outputs(path), inputs=inputs, overwrite=overwrite, folder=path)

    def write(self, model: Model, path: StrPath, *, legacy_merges: bool = False, overwrite: bool = False) -> None:  # noqa: ARG002
        """Write `vocab.json`, `merges.txt`, `tokenizer_config.json`, a sidecar and `token_bytes.npy` to a folder."""
        self.check_write(path, overwrite=overwrite)
        obstacle = pair_obstacle(model)
        if obstacle:
            raise TokenizerFormatError(
                f"the tokenizer cannot be written as GPT-2's pair of files: {obstacle}; expected a tokenizer to which "
                "other tools give equal ids: save it in another format"
            )
        vocab_path, merges_path, config_path, sidecar, lengths_path = self.outputs(path)
        vocab, merges = pair_contents(model, vocab_path)
        contents = {merges_path: merges, vocab_path: vocab, config_path: gpt2_config_json(model)}
        with creating_folder(Path(path)):
            write_files(model, contents, lengths_path, (sidecar, sidecar_json(model, vocab)))


def _word_content(path: Path, vocab: dict[str, Any], class_name: str | None, pattern: Pattern | None) -> dict[str, Any] | None:
    """Return the content of the `tokenizer.json` of a pair that marks the ends of words, and None for others."""
    if class_name not in CLASSES and not any(text.endswith(WORD_END) for text in vocab):
        return None
    merges = read_merge_texts(path.with_name(MERGES_FILE))
    if class_name not in CLASSES and not marks_words(vocab, merges):
        return None
    found = class_of_pair(vocab, path, class_name)
    if pattern is not None:
        raise TokenizerFormatError(f"`{path}` is split as the class {found} splits text; expected no `pattern=`: omit it")
    return content_for(found, vocab, merges)


def _other_content(path: Path, data: bytes, class_name: str | None, **given: Unpack[Given]) -> dict[str, Any] | None:
    """Return the content of the `tokenizer.json` of a pair that marks the ends of words, or lacks bytes; None for others."""
    from bpejit.formats.huggingface_reading import distinct_fields  # not at the top: it takes 30 ms

    vocab = parse_json(data, path, error=TokenizerFormatError, hook=distinct_fields)
    if not isinstance(vocab, dict) or any(type(number) is not int for number in vocab.values()):
        return None  # its reader says what is wrong
    pattern, specials = given.get("pattern"), given.get("special_tokens")
    content = _word_content(path, vocab, class_name, pattern)
    if content is None:
        if pattern is None or vocab.keys() >= {*CHARACTERS}:
            return None
        merges = read_merge_texts(path.with_name(MERGES_FILE))
        if not all({left, right, left + right} <= vocab.keys() for left, right in merges):
            return None
        n_bytes = sum(decoded_or_none("".join(pair)) is not None for pair in merges)
        if 2 * n_bytes < len(merges) or not merges:
            raise TokenizerFormatError(
                f"`{path}` is a vocabulary of characters: {len(merges) - n_bytes} of {len(merges)} merges are not in byte "
                "characters; expected those of bytes, or a `tokenizer.json`, which tells how text is changed and split: "
                "convert it"
            )
        content = {
            "pre_tokenizer": pre_tokenizer_for(pattern_source(pattern), unicode=given.get("unicode") or TOOLS_UNICODE),
            "decoder": byte_level(),
            "model": {"type": "BPE", "vocab": vocab, "merges": [*map(list, merges)]},
        }
    if specials is not None:
        content["added_tokens"] = added_tokens(specials, {**vocab, **specials} if isinstance(specials, Mapping) else vocab)
    return content


def _is_known(content: dict[str, Any], pair: dict[str, Any], special_tokens: dict[str, int]) -> bool:
    """Return True if the settings add nothing to the special tokens of a known pair."""
    plain = TokenFlags()._asdict()
    known = [{"id": number, "content": text, **plain} for text, number in special_tokens.items()]
    same = content["added_tokens"] == sorted(known, key=itemgetter("id"))
    return same and content["pre_tokenizer"] == pair["pre_tokenizer"] and content["post_processor"] is None


def _post_processor(
    content: dict[str, Any], config: TokenizerConfig, class_name: str | None, folder: Path
) -> dict[str, Any] | None:
    """Return the post-processor with the tokens that a class adds to each text."""
    ids = {token["content"]: token["id"] for token in content["added_tokens"]}
    if class_name in ROBERTA_CLASSES:
        if config.sep_token is None or config.cls_token is None:
            raise TokenizerFormatError(
                f"`{folder}` has the class {class_name}, but no sep_token or no cls_token, which it adds to each text; "
                "expected both in tokenizer_config.json: add them"
            )
        sep, cls = ([token, ids[token]] for token in (config.sep_token, config.cls_token))
        prefix = content["pre_tokenizer"]["add_prefix_space"]
        return {"type": "RobertaProcessing", "sep": sep, "cls": cls, "trim_offsets": True, "add_prefix_space": prefix}
    if (config.others or {}).get("add_bos_token") and config.bos_token is not None:
        return adding_template([config.bos_token], [], ids, second=False)
    return None
