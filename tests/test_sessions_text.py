from __future__ import annotations

import json
import tomllib
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.text import UNSAFE, json_printable, lines, one_line, printable, toml_string


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2J\x1b[H", "\\x1b[2J\\x1b[H"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("\x1b]52;c;cm0gLXJm\x1b\\", "\\x1b]52;c;cm0gLXJm\\x1b\\"),
        ("\x9b31m", "\\x9b31m"),
        ("\x9d0;title\x9c", "\\x9d0;title\\x9c"),
        ("\x90q\x9c", "\\x90q\\x9c"),
        ("a\x00b\x08c\x7f", "a\\x00b\\x08c\\x7f"),
        ("42\u202e24", "42\\u202e24"),
        ("\u2066x\u2069\u200b\ufeff", "\\u2066x\\u2069\\u200b\\ufeff"),
        ("\U000e0041", "\\U000e0041"),
        ("a\u2028b\u2029c\x85d", "a\\u2028b\\u2029c\\x85d"),
        ("two\r\nlines\tand", "two\\r\\nlines\\tand"),
        ("\ud800", "\\ud800"),
    ],
)
def test_hostile_text_becomes_visible_escapes(hostile: str, shown: str) -> None:
    """Escape sequences, C0, C1, bidi overrides and invisible characters are shown and cannot act."""
    assert one_line(hostile) == shown


@pytest.mark.parametrize("text", ["plain", "h\u00e9llo \u2212 \u4f60\u597d \U0001f600", "[bold]not markup[/bold]", ""])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    """Letters, signs, wide characters and brackets pass unchanged."""
    assert one_line(text) == text


@given(st.text(alphabet=st.characters()))
def test_no_unsafe_character_survives(text: str) -> None:
    """Whatever goes in, nothing that a terminal obeys comes out, on either path."""
    for safe in (one_line(text), one_line(text, 10), *lines(text)):
        assert not [c for c in safe if unicodedata.category(c) in UNSAFE]


def test_long_text_is_cut_with_a_mark() -> None:
    """A limit counts the mark, so that columns never overflow."""
    assert one_line("abcdefghij", 7) == "abcd..."
    assert one_line("abcdefg", 7) == "abcdefg"


def test_lines_split_at_newlines_only() -> None:
    """Text of several lines keeps them; a stray carriage return cannot overwrite a line."""
    assert lines("a\r\nb\rc\n\td") == ["a", "b\\rc", "        d"]


@pytest.mark.parametrize("name", ["\u591c\u306e\u76e3\u67fb", "a\xa0b", "\u591c\u3000\u4e8c", "caf\xe9"])
def test_a_name_of_any_script_is_spelt_alike_everywhere(name: str) -> None:
    """Letters and spaces of a script are no danger: lists, messages, JSON and TOML leave them alone."""
    assert one_line(name) == printable(name) == name
    assert json_printable(json.dumps(name, ensure_ascii=False).encode()).decode() == f'"{name}"'
    assert toml_string(name) == f'"{name}"'


@given(st.text(max_size=300))
def test_printable_is_one_short_line_for_any_text(text: str) -> None:
    """Nothing that moves a cursor survives, and text without such signs stays as it is up to the limit."""
    shown = printable(text)
    assert len(shown) <= 200
    assert not any(unicodedata.category(c) in UNSAFE for c in shown)
    if len(text) <= 200 and not any(unicodedata.category(c) in UNSAFE for c in text):
        assert shown == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_json_and_toml_say_the_same_with_nothing_that_acts(text: str) -> None:
    """Both read back to the text, and hold no character that a terminal obeys."""
    encoded = json_printable(json.dumps(text, ensure_ascii=False).encode()).decode()
    written = toml_string(text)
    assert json.loads(encoded) == text
    assert tomllib.loads(f"x = {written}")["x"] == text
    assert not any(unicodedata.category(c) in UNSAFE for c in encoded + written)
