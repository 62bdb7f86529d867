"""Text to token ids and back, from tokenizer.json, with the checkpoint's own chat template."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer as RustTokenizer

from engine.backends.embedded.config import Fields, read_json, token_ids
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from engine.backends.embedded.config import ModelConfig


class Tokenizer:
    """A checkpoint's tokenizer.

    Attributes:
        special_ids: ids of special tokens, stop ids, and ids of the vocabulary that stand for no token at all.
        stop_ids: end-of-sequence ids, from generation_config.json, else config.json, else tokenizer_config.json.
    """

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        """Read tokenizer.json, tokenizer_config.json, generation_config.json and the chat template of `folder`.

        Raises:
            RefeedError: kind "engine" when a file is missing or damaged, or ids lie beyond the model's vocabulary.
        """
        self._path = folder / "tokenizer.json"
        self._rust = _load(self._path)
        settings_path = folder / "tokenizer_config.json"
        settings = read_json(settings_path)
        self._names = {name: _content(settings.get(name)) for name in ("bos_token", "eos_token", "pad_token")}
        self._template_path, self._template = _chat_template(folder, settings_path, settings)
        vocabulary = self._rust.get_vocab(with_added_tokens=True)
        beyond = {name: number for name, number in vocabulary.items() if number >= config.vocab_size}
        if beyond:
            name, number = max(beyond.items(), key=lambda item: item[1])
            message = f"{self._path} has token {name!r} with id {number}"
            hint = f"the model has {config.vocab_size} token ids; this tokenizer belongs to another model"
            raise RefeedError("engine", message, hint)
        self.stop_ids = frozenset(self._stop_ids(folder, config, vocabulary))
        special = {number for number, token in self._rust.get_added_tokens_decoder().items() if token.special}
        named = {vocabulary[name] for name in self._names.values() if name in vocabulary}
        unknown = set(range(config.vocab_size)) - set(vocabulary.values())
        self.special_ids = frozenset(special | named | unknown | self.stop_ids)

    def encode_chat(self, system: str | None, user: str) -> tuple[int, ...]:
        """Token ids of a one-turn chat, ready for the assistant's first token.

        Raises:
            RefeedError: kind "engine" when the checkpoint has no chat template, or it fails.
        """
        if self._template is None:
            hint = "add chat_template.jinja, or a chat_template in tokenizer_config.json"
            raise RefeedError("engine", f"{self._template_path.parent} has no chat template", hint)
        messages = [] if system is None else [{"role": "system", "content": system}]
        messages.append({"role": "user", "content": user})
        names = {name: value for name, value in self._names.items() if value is not None}
        try:
            template = _environment().from_string(self._template)
            text = template.render(messages=messages, add_generation_prompt=True, tools=None, **names)
        except TemplateError as error:
            raise RefeedError("engine", f"{self._template_path}: the chat template fails: {error}") from error
        return tuple(self._rust.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids, without special tokens."""
        return str(self._rust.decode(list(tokens), skip_special_tokens=True))

    def _stop_ids(self, folder: Path, config: ModelConfig, vocabulary: dict[str, int]) -> tuple[int, ...]:
        path = folder / "generation_config.json"
        fields = Fields(path, read_json(path) if path.exists() else {})
        found = token_ids(fields, "eos_token_id") or config.eos_ids
        if not found and self._names["eos_token"] in vocabulary:
            found = (vocabulary[str(self._names["eos_token"])],)
        if any(one >= config.vocab_size for one in found):
            raise RefeedError(
                "engine", f"{folder}: eos_token_id is {list(found)}", f"the model has {config.vocab_size} token ids"
            )
        return found


def _load(path: Path) -> Any:
    if not path.exists():
        raise RefeedError("engine", f"{path} is missing", "the embedded engine needs a fast tokenizer's file")
    try:
        return RustTokenizer.from_file(str(path))
    except Exception as error:  # the Rust side raises bare Exception, whatever went wrong
        raise RefeedError("engine", f"{path} cannot be read: {error}", "download the checkpoint again") from error


def _content(token: object) -> str | None:
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _chat_template(folder: Path, settings_path: Path, settings: dict[str, Any]) -> tuple[Path, str | None]:
    path = folder / "chat_template.jinja"
    if path.exists():
        return path, path.read_text(encoding="utf-8")
    value = settings.get("chat_template")
    if isinstance(value, list):
        value = {item.get("name"): item.get("template") for item in value if isinstance(item, dict)}.get("default")
    return settings_path, value if isinstance(value, str) else None


def _environment() -> ImmutableSandboxedEnvironment:
    """The environment that chat templates are written for (Hugging Face's), sandboxed: a checkpoint is foreign code."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.globals["raise_exception"] = _raise_exception
    environment.filters["tojson"] = _to_json
    return environment


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
