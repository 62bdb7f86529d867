"""Prompts and stops as transformers has them, from a checkpoint's own files."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from transformers import AutoTokenizer

from engine.backends.chat import Chat
from engine.backends.load import BUNDLED_PATH
from sessions.errors import RefeedError
from tests.helpers.shared import shared_path

if TYPE_CHECKING:
    from pathlib import Path

QUESTION = "Tom has 12 apples and buys 7 more. How many?\nPut the final answer after ####."


def with_files(folder: Path, template: str | None = None, **changes: object) -> Path:
    """The bundled checkpoint with another template, and fields of tokenizer.json changed."""
    shutil.copytree(BUNDLED_PATH, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


def size_of(folder: Path) -> int:
    """Token ids of a checkpoint."""
    return int(json.loads((folder / "config.json").read_text())["vocab_size"])


def chat_of(folder: Path, date: str | None = "2024-07-26") -> Chat:
    """What is tested."""
    return Chat(folder, size_of(folder), date)


def reference(folder: Path, user: str = QUESTION) -> tuple[int, ...]:
    """Ids of transformers' own."""
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": user}], tokenize=False, add_generation_prompt=True
    )
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def test_the_bundled_models_prompt_is_transformers_own() -> None:
    """Equal ids, and the text reads back."""
    chat = chat_of(BUNDLED_PATH)
    assert chat.encode_chat(None, QUESTION) == reference(BUNDLED_PATH)
    assert QUESTION in chat.decode(chat.encode_chat(None, QUESTION))


def test_saved_padding_and_truncation_leave_a_prompt_whole(tmp_path: Path) -> None:
    """Fine-tuning scripts leave both in tokenizer.json."""
    cut = {"direction": "Right", "max_length": 24, "strategy": "LongestFirst", "stride": 0}
    padding = {
        "strategy": {"Fixed": 96},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<|endoftext|>",
    }
    whole = chat_of(BUNDLED_PATH).encode_chat(None, QUESTION)
    assert 24 < len(whole) < 96
    for name, changes in (("cut", {"truncation": cut}), ("padded", {"padding": padding})):
        assert chat_of(with_files(tmp_path / name, **changes)).encode_chat(None, QUESTION) == whole


def test_the_fine_tuned_checkpoint_with_both_gives_transformers_ids() -> None:
    """A real saved one."""
    folder = shared_path("data/cases/baked_padding_checkpoint")
    assert chat_of(folder).encode_chat(None, QUESTION) == reference(folder)


def test_every_end_that_a_file_names_ends_a_request(tmp_path: Path) -> None:
    """generation_config.json, config.json and the tokenizer; 0 is an id like any other."""
    folder = with_files(tmp_path / "model")
    (folder / "generation_config.json").write_text('{"eos_token_id": [0, 7]}')
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": 9}))
    assert chat_of(folder).stop_ids == {0, 2, 7, 9}
    assert chat_of(folder).stop_ids < chat_of(folder).special_ids


def test_the_tokenizers_own_end_counts_where_other_files_name_another() -> None:
    """A fine-tune whose template ends turns with <|im_end|> (259) and whose generation_config has 257."""
    assert chat_of(shared_path("data/cases/baked_padding_checkpoint")).stop_ids == {257, 259}


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        ("{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}", "Hi"),
        ("{% for m in messages %}{{ m.content | tojson(ensure_ascii=False) }}{% endfor %}", '"Hi"'),
        ("{{ strftime_now('%d %b %Y') }} {% for m in messages %}{{ m.content }}{% endfor %}", "26 Jul 2024 Hi"),
        ("{{ eos_token }}{% for m in messages %}{{ m.content }}{% endfor %}", "<|im_end|>Hi"),
    ],
)
def test_templates_render_as_in_transformers(template: str, wanted: str, tmp_path: Path) -> None:
    """The generation tag, arguments of tojson, a date that is registered, and names of special tokens."""
    assert chat_of(with_files(tmp_path / "model", template)).render(None, "Hi") == wanted


@pytest.mark.parametrize("name", ["date", "generation_tag", "tojson_keyword"])
def test_templates_of_public_families_render(name: str, tmp_path: Path) -> None:
    """Each holds the whole question."""
    template = shared_path(f"data/cases/templates/{name}.jinja").read_text()
    assert chat_of(with_files(tmp_path / "model", template)).encode_chat(None, QUESTION)


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages[0].content[:20] }}",
        "{% for m in messages if m.role == 'assistant' %}{{ m.content }}{% endfor %}",
        "{{ raise_exception('no system role') }}",
        "{{ messages[0].content | nothing }}",
    ],
)
def test_a_template_that_loses_the_question_or_fails_is_refused(template: str, tmp_path: Path) -> None:
    """Before a token is generated."""
    chat = chat_of(with_files(tmp_path / "model", template))
    with pytest.raises(RefeedError) as caught:
        chat.encode_chat(None, QUESTION)
    assert caught.value.kind == "engine"


def test_a_system_prompt_that_the_template_drops_is_refused(tmp_path: Path) -> None:
    """It would be registered and not be said."""
    chat = chat_of(with_files(tmp_path / "model", "{{ messages[-1].content }}"))
    assert chat.encode_chat(None, QUESTION)
    with pytest.raises(RefeedError, match="Be brief"):
        chat.encode_chat("Be brief.", QUESTION)
