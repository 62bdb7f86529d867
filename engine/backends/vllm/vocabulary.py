"""The model's tokens: chat template, text, stop ids, and ids that may stand on no arm of a pivot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Sequence


def _ids(value: object) -> set[int]:
    if value is None:
        return set()
    return {int(one) for one in value} if isinstance(value, list | tuple | set) else {int(str(value))}


def _rust(folder: str, tokenizer: Any) -> Any:
    """Return the tokenizer that the checkpoint's tokenizer.json describes.

    transformers 5 picks a class by the model's type and rebuilds the tokenizer from vocabulary and merges: a Qwen2
    model with another tokenizer than Qwen2's is then split differently than by its own file.
    """
    from tokenizers import Tokenizer  # noqa: PLC0415 - only where vLLM is installed

    path = Path(folder) / "tokenizer.json"
    if path.is_file():
        return Tokenizer.from_file(str(path))
    found = getattr(tokenizer, "backend_tokenizer", None)
    if found is None:
        hint = "convert it to tokenizer.json with transformers' AutoTokenizer.save_pretrained"
        raise RefeedError("engine", f"{folder} has no tokenizer.json and no fast tokenizer", hint)
    return found


class Vocabulary:
    """A model's tokenizer with what its configuration says about ending.

    Attributes:
        size: token ids that the model can emit.
        stop_ids: end-of-sequence ids: generation_config.json, else config.json, else the tokenizer.
        special_ids: special tokens, stop ids, and ids of the vocabulary that stand for no token at all.
    """

    def __init__(self, tokenizer: Any, model_config: Any) -> None:
        """Read both.

        Raises:
            RefeedError: kind "engine" when there is no tokenizer.json and no fast tokenizer.
        """
        self._chat = tokenizer
        self._tokens = _rust(str(model_config.tokenizer), tokenizer)
        self.size = int(model_config.get_vocab_size())
        generation = model_config.try_get_generation_config()
        text_config = getattr(model_config, "hf_text_config", None)
        self.stop_ids = frozenset(
            _ids(generation.get("eos_token_id"))
            or _ids(getattr(text_config, "eos_token_id", None))
            or _ids(getattr(tokenizer, "eos_token_id", None))
        )
        special = {number for number, token in self._tokens.get_added_tokens_decoder().items() if token.special}
        unknown = set(range(self.size)) - set(self._tokens.get_vocab(with_added_tokens=True).values())
        self.special_ids = frozenset(special | set(tokenizer.all_special_ids) | unknown | self.stop_ids)

    def encode_chat(self, system: str | None, user: str) -> tuple[int, ...]:
        """Token ids of a one-turn chat, ready for the assistant's first token.

        Raises:
            RefeedError: kind "engine" when the model has no chat template, or it fails.
        """
        messages = [] if system is None else [{"role": "system", "content": system}]
        messages.append({"role": "user", "content": user})
        try:
            text = self._chat.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # templates are programs of the model's authors: whatever they raise
            raise RefeedError(
                "engine",
                f"the model's chat template cannot be applied: {type(error).__name__}: {error}",
                "use an instruction-tuned model, or add chat_template.jinja to its folder",
            ) from error
        return tuple(self._tokens.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids, without special tokens and otherwise as generated."""
        return str(self._tokens.decode(list(tokens), skip_special_tokens=True))
