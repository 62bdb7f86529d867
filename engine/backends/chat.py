"""A checkpoint's tokenizer and chat template, read from its folder as transformers reads them, for either engine.

Text is split by the checkpoint's own tokenizer.json: transformers 5 picks a class by the model's type and rebuilds the
tokenizer, so that a Qwen2 model with another tokenizer than Qwen2's would be split differently than by its own file.
Padding and truncation that a training script left in that file are off: a prompt is given whole or not at all.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from engine.backends.fields import Fields, read_json, token_ids
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SHOWN: Final = 60
LONGEST: Final = 300
WORDS: Final = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")
CLOCK: Final = "strftime_now"  # transformers' function for templates: the moment of the call
DIRECTIVES: Final = ("%-d", "%-m", *(f"%{letter}" for letter in "aAbBcdHIjmMpSUwWxXyY"))
# What a template may change of a text without changing what it says: white space, and the escapes of JSON.
UNIMPORTANT: Final = re.compile(r"\\[nrt]|[\s\\▁Ġ]")


class Chat:
    """The tokens of a checkpoint.

    Attributes:
        size: token ids that the model can emit.
        stop_ids: every end-of-sequence id that generation_config.json, config.json or the tokenizer names.
        special_ids: special tokens, stop ids, and ids of the vocabulary that stand for no token at all.
    """

    def __init__(self, folder: Path, size: int, date: str | None = None) -> None:
        """Read the tokenizer, its template and the stop ids of `folder`.

        Args:
            folder: the checkpoint's.
            size: token ids that the model can emit.
            date: the day (YYYY-MM-DD) that a template prints which asks for it; None for today.

        Raises:
            RefeedError: kind "engine" when a file is missing or damaged, or ids lie beyond `size`.
        """
        self.size = size
        self._folder = folder
        self._day = datetime.fromisoformat(date) if date else datetime.now().astimezone()
        self._chat = _transformers(folder)
        self._tokens = _rust(folder, self._chat)
        vocabulary = self._tokens.get_vocab(with_added_tokens=True)
        self._check_within(vocabulary)
        self.stop_ids = frozenset(self._stop_ids())
        special = {number for number, token in self._tokens.get_added_tokens_decoder().items() if token.special}
        unknown = set(range(size)) - set(vocabulary.values())
        self.special_ids = frozenset(special | set(self._chat.all_special_ids) | unknown | self.stop_ids)

    def render(self, system: str | None, user: str) -> str:
        """Text of a one-turn chat, ready for the assistant's first token.

        Raises:
            RefeedError: kind "engine" when the checkpoint has no chat template, or it fails.
        """
        messages = [] if system is None else [{"role": "system", "content": system}]
        messages.append({"role": "user", "content": user})
        try:
            template = _dated(self._chat.get_chat_template(), self._day)
            return str(
                self._chat.apply_chat_template(
                    messages, chat_template=template, tokenize=False, add_generation_prompt=True
                )
            )
        except Exception as error:  # templates are programs of the model's authors: whatever they raise
            raise RefeedError(
                "engine",
                f"{self._folder}: its chat template cannot be applied: {type(error).__name__}: {error}",
                "use an instruction-tuned model, or add chat_template.jinja to its folder",
            ) from error

    def encode_chat(self, system: str | None, user: str) -> tuple[int, ...]:
        """Token ids of a one-turn chat, ready for the assistant's first token.

        Raises:
            RefeedError: kind "engine" as `render`, and when a line of the messages does not stand in the tokens.
        """
        ids = tuple(self._tokens.encode(self.render(system, user), add_special_tokens=False).ids)
        found = _bare(self._tokens.decode(list(ids), skip_special_tokens=False))
        for line in f"{system or ''}\n{user}".splitlines():
            if _bare(line) not in found:
                raise RefeedError(
                    "engine",
                    f"{self._folder}: the prompt as the model would get it lacks {line[:SHOWN]!r}",
                    "its chat template drops it, or its tokenizer has no tokens for it; use another model or prompt",
                )
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids, without special tokens and otherwise as generated."""
        return str(self._tokens.decode(list(tokens), skip_special_tokens=True))

    def _check_within(self, vocabulary: dict[str, int]) -> None:
        name, number = max(vocabulary.items(), key=lambda item: item[1], default=("", -1))
        if number >= self.size:
            message = f"{self._folder / 'tokenizer.json'} has token {name!r} with id {number}"
            hint = f"the model has {self.size} token ids; this tokenizer belongs to another model"
            raise RefeedError("engine", message, hint)

    def _stop_ids(self) -> set[int]:
        found = set() if self._chat.eos_token_id is None else {int(self._chat.eos_token_id)}
        for name in ("generation_config.json", "config.json"):
            path = self._folder / name
            values = read_json(path) if path.exists() else {}
            inner = values.get("text_config")
            for part in (values, inner if isinstance(inner, dict) else {}):
                found.update(token_ids(Fields(path, part), "eos_token_id"))
        if any(one >= self.size for one in found):
            message = f"{self._folder}: eos_token_id is {sorted(found)}"
            raise RefeedError("engine", message, f"the model has {self.size} token ids")
        return found


def _dated(template: str, day: datetime) -> str:
    """A template whose clock stands at `day`: transformers lets no caller give it a function of its own.

    The line break ends the block and is dropped with it, so that the template still begins a line.
    """
    if CLOCK not in template:
        return template
    replaced = "".join(f" | replace({one!r}, {day.strftime(one)!r})" for one in DIRECTIVES)
    return f"{{% macro {CLOCK}(format) %}}{{{{ format{replaced} }}}}{{% endmacro %}}\n{template}"


def _transformers(folder: Path) -> Any:
    from transformers import AutoTokenizer  # noqa: PLC0415 - seconds, and the worker's only

    if not any((folder / name).is_file() for name in WORDS):
        hint = "transformers would make an empty tokenizer; download the checkpoint again, with its tokenizer"
        raise RefeedError("engine", f"{folder / WORDS[0]} is missing", hint)
    for name in ("tokenizer_config.json", "tokenizer.json"):
        if (folder / name).exists():
            read_json(folder / name)  # names the file and the place; transformers passes over some
    try:
        return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # whatever transformers raises over a stranger's files
        said = " ".join(str(error).split())[:LONGEST]
        hint = "it needs a tokenizer that transformers' AutoTokenizer opens; download the checkpoint again"
        raise RefeedError("engine", f"the tokenizer of {folder} cannot be read: {said}", hint) from error


def _rust(folder: Path, chat: Any) -> Any:
    """The tokenizer of tokenizer.json, or what transformers made of older files; it neither pads nor cuts."""
    from tokenizers import Tokenizer  # noqa: PLC0415 - only where an engine is installed

    path = folder / "tokenizer.json"
    try:
        found = Tokenizer.from_file(str(path)) if path.is_file() else getattr(chat, "backend_tokenizer", None)
    except Exception as error:  # the Rust side raises bare Exception, whatever went wrong
        raise RefeedError("engine", f"{path} cannot be read: {error}", "download the checkpoint again") from error
    if found is None:
        hint = "convert it to tokenizer.json with transformers' AutoTokenizer.save_pretrained"
        raise RefeedError("engine", f"{folder} has no tokenizer.json and no fast tokenizer", hint)
    found.no_truncation()
    found.no_padding()
    return found


def _bare(text: str) -> str:
    return UNIMPORTANT.sub("", unicodedata.normalize("NFKC", text)).casefold()
