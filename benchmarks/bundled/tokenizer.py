"""Learn the bundled model's tokenizer: byte-level BPE of 512 tokens, single digits, ChatML specials.

    python -m benchmarks.bundled.tokenizer OUT

Every byte is a token, so that any text can be encoded; merges are learned from training problems alone. Normalisation
(NFC) and word splitting are those of the Qwen2 architecture, because transformers 5 rebuilds them for every Qwen2 model
whatever tokenizer.json says: with any others, two loaders of this folder would disagree.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from engine.tasks.arithmetic import training_stream
from engine.tasks.task import INSTRUCTION
from sessions.presets import PUBLISHED_INSTRUCTION

if TYPE_CHECKING:
    from collections.abc import Iterator

VOCAB: Final = 512
SPECIALS: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CORPUS_PROBLEMS: Final = 20_000
MAX_LENGTH: Final = 2048
QWEN2_WORDS: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
ROLES: Final = "system\nuser\nassistant\n"
TEMPLATE: Final = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def corpus(problems: int) -> Iterator[str]:
    """Texts that the merges are learned from, a stream of its own that training does not use."""
    for worked in islice(training_stream(0, -1), problems):
        yield f"{ROLES}{worked.question}\n\n{INSTRUCTION}\n{worked.solution}"
    yield from [PUBLISHED_INSTRUCTION] * (problems // 20)


def learn() -> Tokenizer:
    """The tokenizer, the same from any run."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in SPECIALS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(CORPUS_PROBLEMS), trainer)
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and the chat template as Hugging Face reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(text)): {
                "content": text,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for text in SPECIALS
        },
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "bos_token": None,
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "model_max_length": MAX_LENGTH,
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "Qwen2TokenizerFast",
        "unk_token": None,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")


if __name__ == "__main__":
    save(learn(), Path(sys.argv[1]))
