"""A checkpoint folder of a published architecture with random weights, and the weights themselves.

The folder holds config.json and a word-level tokenizer; vLLM makes dummy weights, which `randomize` replaces in place
with a seeded initialisation. A few end-of-sequence ids get longer rows in the head, so that texts end by themselves
after about a hundred tokens, as the published model's do.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

if TYPE_CHECKING:
    from pathlib import Path

STOPS: Final = 64
STOP_SCALE: Final = 1.8
STD: Final = 0.02
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
    words = {f"w{number}": number for number in range(sizes["vocab_size"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w100"))  # noqa: S106 - no password
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(prefix="#", cleanup=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "w1", "unk_token": "w100"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def randomize(engine: Any, seed: int = 0) -> None:
    """Replace an in-process engine's weights: norms 1, matrices and biases normal with deviation 0.02."""
    import torch  # noqa: PLC0415 - after vLLM set its environment

    def fill(model: Any) -> int:
        count = 0
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "norm" in name:
                    parameter.fill_(1.0)
                else:
                    generator = torch.Generator(parameter.device).manual_seed(seed + count)
                    parameter.normal_(0.0, STD, generator=generator)
                if name.endswith("lm_head.weight"):
                    parameter[1 : 1 + STOPS] *= STOP_SCALE
                count += 1
        return count

    filled = engine.apply_model(fill)
    assert filled[0] > 0
