"""A checkpoint folder of a published architecture with random weights, and the weights themselves.

The folder holds config.json and a word-level tokenizer; vLLM makes dummy weights, which `randomize` replaces in place
with a seeded initialisation. A few end-of-sequence ids get longer rows in the head, so that texts end by themselves
after about a hundred tokens, as the published model's do. Words have three or four letters, about as long as real
tokens, and one in 23 is a number: a text's last number is one of 50 values, so that a trunk is right once in 50 times
and a screen of 8 trunks keeps about one problem in 7 (`questions`).
"""

from __future__ import annotations

import json
import random
import string
from itertools import count, product
from typing import TYPE_CHECKING, Any, Final

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STOPS: Final = 64
STOP_SCALE: Final = 1.8
STD: Final = 0.02
VALUES: Final = 50
SMALLEST: Final = 10
EVERY: Final = 23
LEADING: Final = 12
UNKNOWN: Final = 100
QUESTION_WORDS: Final = 80
TEMPLATE: Final = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
QWEN25_7B: Final[dict[str, Any]] = {
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "rope_theta": 1_000_000.0,
}
TINY: Final[dict[str, Any]] = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 4096,
    "max_position_embeddings": 4096,
    "rope_theta": 10_000.0,
}


def _letters() -> Iterator[str]:
    for length in count(3):
        for letters in product(string.ascii_lowercase, repeat=length):
            yield "".join(letters)


def _numbers() -> Iterator[str]:
    """Ever new spellings of 50 values: 10, 11, ..., 59, 010, ..., then with one decimal, 10.0, and so on."""
    for spelling in count():
        for value in range(SMALLEST, SMALLEST + VALUES):
            zeros, decimals = spelling % LEADING, spelling // LEADING
            yield "0" * zeros + str(value) + ("." + "0" * decimals if decimals else "")


def vocabulary(size: int) -> list[str]:
    """The word of each id."""
    letters, numbers = _letters(), _numbers()
    return [next(numbers if number % EVERY == EVERY - 1 else letters) for number in range(size)]


def questions(path: Path, sizes: dict[str, Any], many: int, seed: int = 0) -> Path:
    """Write a task of random words whose answers are numbers of the vocabulary."""
    words = vocabulary(sizes["vocab_size"])
    choose = random.Random(seed)  # noqa: S311 - filler, not a sample
    rows = (
        {
            "question": " ".join(choose.choices(words, k=QUESTION_WORDS)),
            "answer": str(choose.randrange(SMALLEST, SMALLEST + VALUES)),
        }
        for _ in range(many)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write(folder: Path, sizes: dict[str, Any]) -> Path:
    """Write the folder; every word of a prompt that is not one of the vocabulary's becomes the unknown token."""
    folder.mkdir(parents=True, exist_ok=True)
    fixed = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "use_sliding_window": False,
        "eos_token_id": 1,
    }
    (folder / "config.json").write_text(json.dumps(fixed | sizes))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": list(range(1, 1 + STOPS))}))
    words = vocabulary(sizes["vocab_size"])
    ids = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=words[UNKNOWN]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(prefix="#", cleanup=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": words[1], "unk_token": words[UNKNOWN]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def fill(model: Any) -> int:
    """Give a model seeded weights: norms 1, matrices and biases normal with deviation 0.02; return how many."""
    import torch  # noqa: PLC0415 - after vLLM set its environment

    number = 0
    with torch.no_grad():
        for number, (name, parameter) in enumerate(model.named_parameters(), 1):
            if "norm" in name:
                parameter.fill_(1.0)
            else:
                parameter.normal_(0.0, STD, generator=torch.Generator(parameter.device).manual_seed(number))
            if name.endswith("lm_head.weight"):
                parameter[1 : 1 + STOPS] *= STOP_SCALE
    return number


def randomize(engine: Any) -> None:
    """Replace an engine's weights in place, in whichever process they are."""
    assert engine.apply_model(fill)[0] > 0
