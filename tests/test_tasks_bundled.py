"""The bundled checkpoint: small, loadable by others unchanged, and able to do its task."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

import engine
from engine.tasks.grading import grade
from engine.tasks.registry import open_task
from engine.tasks.task import user_message

FOLDER = Path(engine.__file__).parent / "backends" / "embedded" / "bundled"
RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "bundled_model.json"
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

transformers = pytest.importorskip("transformers", reason="transformers, the reference loader, is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(scope="module")
def own() -> Tokenizer:
    """The tokenizer as the embedded engine reads it."""
    return Tokenizer.from_file(str(FOLDER / "tokenizer.json"))


@pytest.fixture(scope="module")
def theirs() -> Any:
    """The tokenizer as transformers reads it."""
    return transformers.AutoTokenizer.from_pretrained(FOLDER)


@pytest.fixture(scope="module")
def model() -> Any:
    """The model as transformers reads it."""
    return transformers.AutoModelForCausalLM.from_pretrained(FOLDER)


def test_folder_is_complete_and_small() -> None:
    """Everything that a loader looks for is there, in at most 8 MB."""
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir() if path.is_file()}
    assert {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "README.md"} <= sizes.keys()
    assert {"tokenizer_config.json", "chat_template.jinja"} <= sizes.keys()
    assert sum(sizes.values()) <= 8_000_000


def test_transformers_loads_a_qwen2_of_the_stated_size(model: Any) -> None:
    """An unmodified loader finds every weight of a bfloat16 Qwen2 of 0.85 million parameters."""
    assert type(model).__name__ == "Qwen2ForCausalLM"
    assert model.dtype == torch.bfloat16
    assert sum(parameter.numel() for parameter in model.parameters()) == 854_144
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    assert config["rope_theta"] == 10_000
    assert config["vocab_size"] == 512


def test_specials_are_special_and_end_the_turn(own: Tokenizer, theirs: Any) -> None:
    """The three special tokens are marked so, and <|im_end|> ends generation in every file that says so."""
    ids = [number for text in SPECIALS if (number := own.token_to_id(text)) is not None]
    assert len(ids) == len(SPECIALS)
    assert set(theirs.all_special_ids) == set(ids)
    assert own.decode(ids) == ""
    assert theirs.eos_token_id == ids[2]
    for name in ("config.json", "generation_config.json"):
        assert json.loads((FOLDER / name).read_text(encoding="utf-8"))["eos_token_id"] == ids[2]


def test_chat_template_writes_chatml_with_and_without_a_system_turn(theirs: Any) -> None:
    """A system turn appears only where one is given."""
    user = {"role": "user", "content": "hi"}
    system = {"role": "system", "content": "Be brief."}
    chats = [
        theirs.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        for turns in ([user], [system, user])
    ]
    tail = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert chats == [tail, f"<|im_start|>system\nBe brief.<|im_end|>\n{tail}"]


@given(st.text(max_size=200))
def test_any_text_survives_the_tokenizer_in_its_nfc_form(text: str) -> None:
    """Every byte is a token: any text comes back as its NFC form."""
    if any(special in text for special in SPECIALS):
        return
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize(
    "text", ["e\u0301 \u00e9 12  34\n\n x don't 1,000.5", "\u6771\u4eac \U0001f389", " \t\r\n", "a" * 300]
)
def test_both_loaders_give_the_same_tokens(own: Tokenizer, theirs: Any, text: str) -> None:
    """The tokenizers library and transformers read the folder alike, so that engines see the same prompt."""
    assert own.encode(text, add_special_tokens=False).ids == theirs.encode(text, add_special_tokens=False)


def test_digits_are_single_tokens(own: Tokenizer) -> None:
    """No token holds two digits."""
    assert [own.decode([i]) for i in own.encode("12345", add_special_tokens=False).ids] == list("12345")
    assert not any(sum(letter.isdigit() for letter in token) > 1 for token in own.get_vocab())


def test_greedy_solutions_are_right_about_as_often_as_measured(model: Any, theirs: Any) -> None:
    """Of 12 audit problems at least 4 are solved greedily (at the measured rate fewer are a 1-in-100 event)."""
    task = open_task("arithmetic")
    problems = [task.problem(index) for index in range(12)]
    theirs.padding_side = "left"
    chats = [
        theirs.apply_chat_template(
            [{"role": "user", "content": user_message(problem, task.instruction)}],
            add_generation_prompt=True,
            tokenize=False,
        )
        for problem in problems
    ]
    prompts = theirs(chats, return_tensors="pt", padding=True)
    with torch.inference_mode():
        out = model.generate(**prompts, do_sample=False, temperature=None, top_p=None, max_new_tokens=256)
    texts = theirs.batch_decode(out[:, prompts["input_ids"].shape[1] :], skip_special_tokens=True)
    right = [grade(text, problem.gold, "solution") for text, problem in zip(texts, problems, strict=True)]
    assert sum(right) >= 4
