"""What a checkpoint's config.json says, checked against what this engine can run.

Both layouts are read: `rope_theta` with `rope_scaling` (transformers 4) and `rope_parameters` (transformers 5).
Whatever the engine does not implement is refused by file and value, before any weight is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, cast

from engine.backends.fields import Fields, read_json, token_ids

if TYPE_CHECKING:
    from pathlib import Path

ARCHITECTURES: Final = ("Qwen2ForCausalLM", "LlamaForCausalLM")
RopeKind = Literal["default", "linear", "llama3"]


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding settings.

    Attributes:
        kind: "default", "linear" (positions divided by `factor`) or "llama3" (wavelength-dependent scaling).
        theta: base of the frequencies.
        factor: scaling factor; 1 when kind is "default".
        low_freq_factor: llama3 only.
        high_freq_factor: llama3 only.
        original_positions: llama3 only, the context length of pretraining.
    """

    kind: RopeKind
    theta: float
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_positions: int = 8192


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shape of a decoder; sizes are counts, `eps` is the RMS norm's epsilon.

    Attributes:
        architecture: one of `ARCHITECTURES`.
        qkv_bias: whether the query, key and value projections have biases (Qwen2).
        tied: whether the head is the embedding.
        max_positions: longest context that the checkpoint was made for.
        eos_ids: end-of-sequence ids that config.json names.
    """

    architecture: str
    vocab_size: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    qkv_bias: bool
    tied: bool
    eps: float
    rope: Rope
    max_positions: int
    eos_ids: tuple[int, ...]


def read_config(folder: Path) -> ModelConfig:
    """Read and check `folder`/config.json.

    Raises:
        RefeedError: kind "engine", naming file, field and value, for anything that this engine does not implement.
    """
    path = folder / "config.json"
    fields = Fields(path, read_json(path))
    architecture = _architecture(fields)
    _refuse_unsupported(fields, architecture)
    heads, hidden = fields.integer("num_attention_heads"), fields.integer("hidden_size")
    kv_heads = fields.integer("num_key_value_heads", heads)
    if heads % kv_heads != 0:
        raise fields.refuse("num_key_value_heads", f"it must divide num_attention_heads = {heads}")
    if fields.values.get("head_dim") is None and hidden % heads != 0:
        raise fields.refuse("num_attention_heads", f"it must divide hidden_size = {hidden} when head_dim is absent")
    head_dim = fields.integer("head_dim", hidden // heads)
    if head_dim % 2 != 0:
        raise fields.refuse("head_dim", "rotary embeddings need an even head size")
    return ModelConfig(
        architecture=architecture,
        vocab_size=fields.integer("vocab_size"),
        hidden=hidden,
        intermediate=fields.integer("intermediate_size"),
        layers=fields.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        qkv_bias=architecture == "Qwen2ForCausalLM",
        tied=_flag(fields, "tie_word_embeddings"),
        eps=fields.number("rms_norm_eps", 1e-6),
        rope=_rope(fields),
        max_positions=fields.integer("max_position_embeddings"),
        eos_ids=token_ids(fields, "eos_token_id"),
    )


def _flag(fields: Fields, name: str) -> bool:
    value = fields.values.get(name, False)
    if not isinstance(value, bool):
        raise fields.refuse(name, "it must be true or false")
    return value


def _architecture(fields: Fields) -> str:
    names = fields.values.get("architectures")
    if not isinstance(names, list) or len(names) != 1 or names[0] not in ARCHITECTURES:
        raise fields.refuse("architectures", f"the embedded engine runs {' and '.join(ARCHITECTURES)}; use vLLM")
    return cast("str", names[0])


def _refuse_unsupported(fields: Fields, architecture: str) -> None:
    fields.must_be("hidden_act", (None, "silu"), "only silu is implemented")
    fields.must_be("quantization_config", (None,), "quantized checkpoints are not implemented; use vLLM")
    fields.must_be("mlp_bias", (None, False), "MLP biases are not implemented")
    fields.must_be("partial_rotary_factor", (None, 1, 1.0), "partial rotary embeddings are not implemented")
    if architecture == "LlamaForCausalLM":
        fields.must_be("attention_bias", (None, False), "attention biases of Llama checkpoints are not implemented")
        fields.must_be("sliding_window", (None,), "sliding windows are not implemented")
    else:
        fields.must_be("attention_bias", (None, True), "Qwen2 checkpoints have biases on query, key and value")
    fields.must_be("use_sliding_window", (None, False), "sliding windows are not implemented")
    kinds = fields.values.get("layer_types")
    if kinds is not None and (not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds)):
        raise fields.refuse("layer_types", "only full_attention layers are implemented")


def _rope(fields: Fields) -> Rope:
    section = "rope_parameters" if fields.values.get("rope_parameters") is not None else "rope_scaling"
    values = fields.values.get(section)
    if values is None:
        return Rope("default", fields.number("rope_theta", 10000.0))
    if not isinstance(values, dict) or any(isinstance(value, dict) for value in values.values()):
        raise fields.refuse(section, "the embedded engine needs one flat set of rotary settings")
    rope = Fields(fields.path, values, f"{section}.")
    rope.must_be("partial_rotary_factor", (None, 1, 1.0), "partial rotary embeddings are not implemented")
    outer = fields.number("rope_theta", 10000.0)
    theta = rope.number("rope_theta", outer)
    if fields.values.get("rope_theta") is not None and outer != theta:
        raise rope.refuse("rope_theta", f"it contradicts rope_theta = {outer} in the same file")
    name = "rope_type" if "rope_type" in values else "type"
    kind = values.get(name, "default")
    if kind == "default":
        return Rope("default", theta)
    if kind == "linear":
        return Rope("linear", theta, rope.number("factor"))
    if kind == "llama3":
        low, high = rope.number("low_freq_factor"), rope.number("high_freq_factor")
        if low >= high:
            raise rope.refuse("low_freq_factor", f"it must be below high_freq_factor = {high}")
        original = rope.integer("original_max_position_embeddings")
        return Rope("llama3", theta, rope.number("factor"), low, high, original)
    raise rope.refuse(name, "only default, linear and llama3 rotary scaling are implemented")
