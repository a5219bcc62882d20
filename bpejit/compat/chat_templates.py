"""Rendering of chat templates: Jinja templates that turn a conversation into text, as in `transformers`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any

from bpejit import arguments
from bpejit.errors import BpejitError, OptionError, UnsupportedError, shorten
from bpejit.extras import import_extra

_CONTINUE_TAG = "CONTINUE_FINAL_MESSAGE_TAG "

_LEAST_JINJA = (3, 1, 6)
"""Templates can leave the sandbox of older versions."""

_REASONING = ("reasoning_content", "thinking", "reasoning")
"""Keys for the reasoning of a message."""


def render_chats(
    template: str,
    conversations: Iterable[Any],
    *,
    tools: Sequence[Any] | None,
    documents: Sequence[Any] | None,
    add_generation_prompt: bool,
    continue_final_message: bool | str,
    variables: Mapping[str, Any],
) -> list[str]:
    """Return the text of each conversation; the options are those of `HuggingFaceTokenizer.apply_chat_template`.

    The template runs in a sandbox, and sees plain JSON types only. Keys of messages whose value is None are left out.

    Raises
    ------
    OptionError
        If an argument does not fit, or the template fails.
    UnsupportedError
        If Jinja2 is missing or too old, or a tool is a function.
    """
    with _template_errors():
        compiled = _compile(arguments.string("chat_template", template))
        for tool in tools or ():
            if not isinstance(tool, dict):
                raise UnsupportedError(
                    f"a tool is {shorten(tool)}; expected a JSON schema as a dict: make one with "
                    "transformers.utils.get_json_schema"
                )
        for document in documents or ():
            if not isinstance(document, dict):
                raise OptionError(f"a document is {shorten(document)}; expected a dict with 'title' and 'text': pass one")
        given = {"tools": tools, "documents": documents}
        common = _plain({name: value if value is None else list(value) for name, value in given.items()})
        common["add_generation_prompt"] = add_generation_prompt
        variables = _plain(dict(variables))
        key = continue_final_message if isinstance(continue_final_message, str) else "content"
        rendered = []
        for conversation in conversations:
            messages = [_message(message) for message in getattr(conversation, "messages", conversation)]
            final = _mark_final(messages, key, template) if continue_final_message else None
            text: str = compiled.render({"messages": messages, **common, **variables})
            rendered.append(text if final is None else _cut_at_mark(text, final))
        return rendered


@contextmanager
def _template_errors() -> Iterator[None]:
    try:
        yield
    except BpejitError:
        raise
    except Exception as cause:  # a template is a program, and Jinja passes on what it raises, also MemoryError
        is_from_jinja = any(kind.__module__ == "jinja2.exceptions" for kind in type(cause).__mro__)
        found = str(cause) if is_from_jinja else f"{type(cause).__name__}{f': {cause}' if str(cause) else ''}"
        raise OptionError(
            f"the chat template failed: {found}; expected messages that it accepts: correct the conversation or the template"
        ) from cause


def _message(message: Any) -> dict[str, Any]:
    if isinstance(message, Mapping):
        message = {name: value for name, value in message.items() if value is not None}
    plain = _plain(message)
    if not isinstance(plain, dict):
        raise OptionError(
            f"a message is {shorten(message)}; expected a dict such as {{'role': 'user', 'content': 'Hello'}}: pass one"
        )
    reasoning = next((plain[name] for name in _REASONING if plain.get(name) is not None), None)
    return plain if reasoning is None else {"thinking": reasoning, **plain, "reasoning_content": reasoning}


def _mark_final(messages: list[dict[str, Any]], key: str, template: str) -> str:
    """Append a mark to the content of the last message, in place; return the content."""
    if not messages:
        raise OptionError("continue_final_message is set and the conversation is empty; expected a message: pass one")
    last = messages[-1]
    content = last.get(key)
    if content is None:
        raise OptionError(f"the last message has no {shorten(key)} to continue; expected one: leave continue_final_message out")
    names = [name for name in _REASONING if last.get(name) == content] if key in _REASONING else [key]
    if not any(name in template for name in names):
        raise OptionError(f"the chat template does not use {shorten(key)}; expected a key that it uses: choose another")
    if isinstance(content, (list, tuple)):
        block = next((block for block in reversed(content) if "text" in block), None)
        if block is None:
            raise OptionError("the last message has no text to continue; expected some: leave continue_final_message out")
        text: str = block["text"]
        block["text"] = text + _CONTINUE_TAG
        return text
    for name in names:
        last[name] += _CONTINUE_TAG
    return str(content)


def _cut_at_mark(text: str, final: str) -> str:
    """Return the text before the mark, without white space before it if the template stripped the mark."""
    if final.strip() not in text or _CONTINUE_TAG.strip() not in text:
        raise OptionError(
            f"the chat template does not show the last message, {shorten(final)}, as it is; "
            "expected a template that does: leave continue_final_message out"
        )
    index = text.rindex(_CONTINUE_TAG.strip())
    return text[:index] if text.startswith(_CONTINUE_TAG, index) else text[:index].rstrip()


def _plain(value: Any) -> Any:
    """Return a copy of a value in plain JSON types; anything else becomes a placeholder with the name of its type.

    Methods of other objects are not safe to call from a template.
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind.__str__(value) if kind is str else kind(value)
    if isinstance(value, Mapping):
        return {_plain(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    if type(value).__module__ == "numpy" and hasattr(value, "item") and not hasattr(value, "__len__"):
        return _plain(value.item())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if callable(getattr(value, "model_dump", None)):  # a model of pydantic
        return _plain(value.model_dump())
    return f"<{type(value).__name__}>"


def _require_jinja() -> Any:
    jinja2 = import_extra("jinja2", "a chat template", extra="hf", error=UnsupportedError)
    version = jinja2.__version__
    if tuple(int(part) for part in version.split(".")[:3] if part.isdigit()) < _LEAST_JINJA:
        raise UnsupportedError(
            f"chat templates need the package jinja2, and version {version} is installed, whose sandbox is not safe; "
            "expected 3.1.6 or newer: run `pip install 'bpejit[hf]'`"
        )
    return jinja2


@lru_cache(maxsize=16)
def _compile(template: str) -> Any:
    jinja2 = _require_jinja()
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):  # type: ignore[misc, unused-ignore]
        """`{% generation %}`, which marks the assistant's text, and changes no text."""

        tags = {"generation"}  # noqa: RUF012 - as Jinja2 declares it

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    class TemplateDict:
        """`dict`, without the attributes of the type."""

        def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
            return dict(*args, **kwargs)

        def fromkeys(self, *args: Any) -> dict[Any, Any]:
            return dict.fromkeys(*args)

    class TemplateNamespace(jinja2.utils.Namespace):  # type: ignore[name-defined, misc, unused-ignore]
        """`namespace`, without attributes that begin with an underscore."""

        def __init__(*args: Any, **kwargs: Any) -> None:
            attributes = dict(*args[1:], **kwargs)
            for name in attributes:
                check_name(name)
            jinja2.utils.Namespace.__init__(args[0], attributes)

        def __setitem__(self, name: str, value: Any) -> None:
            check_name(name)
            super().__setitem__(name, value)

    def check_name(name: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace cannot have the attribute {name!r}: rename it")

    def to_json(
        value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        # Jinja's own filter escapes HTML.
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.filters["tojson"] = to_json
    environment.globals |= {
        "raise_exception": raise_exception,
        "strftime_now": lambda form: datetime.now().strftime(form),
        "dict": TemplateDict(),
        "namespace": TemplateNamespace,
    }
    try:
        return environment.from_string(template)
    except Exception as cause:  # also RecursionError, and what Python's compiler raises
        raise OptionError(
            f"the chat template {shorten(template)} is not valid: {cause}; expected a Jinja template: correct it"
        ) from cause
