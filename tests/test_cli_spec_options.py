from __future__ import annotations

import subprocess
import sys
import tomllib
import unicodedata
from typing import TYPE_CHECKING, Any

import click
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions.errors import RefeedError
from sessions.presets import PRESETS
from sessions.spec import CampaignSpec, from_fields
from sessions.text import UNSAFE
from tui.setup.options import DIGESTS, Asked, combine, field_help, options, to_toml

if TYPE_CHECKING:
    from pathlib import Path


def parse(*args: str) -> dict[str, Any]:
    """Values of the spec's flags as click reads them."""
    found: dict[str, Any] = {}
    command = click.Command("launch", params=list(options()), callback=lambda **flags: found.update(flags))
    with command.make_context("launch", list(args)) as ctx:
        command.invoke(ctx)
    return found


def asked(source: str | None = None, *args: str) -> Asked:
    """The spec that a preset or file and flags make."""
    return combine(source, parse(*args), name=None, price_per_hour=None)


def test_every_field_of_the_spec_is_a_flag_with_help() -> None:
    """`max_pivots` is `--max-pivots`, and its help is what its type says."""
    made = {option.name: option for option in options()}
    assert set(made) == set(CampaignSpec.__struct_fields__) - DIGESTS
    texts = field_help()
    for name, option in made.items():
        assert "--" + str(name).replace("_", "-") in option.opts
        assert texts[str(name)] in str(option.help)


def test_no_flag_leaves_every_field_to_preset_and_defaults() -> None:
    """A flag that is not given says nothing, whatever its field's default is."""
    assert set(parse().values()) == {None}
    assert asked().spec == CampaignSpec()


def test_flags_have_the_types_of_their_fields() -> None:
    """Numbers, choices, switches and the pair of thresholds."""
    spec = asked(None, "--max-pivots", "3", "--margin", "0.5", "--screen", "mixed", "--batch-invariant",
                 "--decision", "0.01,0.1", "--model", "x/y", "--max-hours", "2").spec  # fmt: skip
    assert (spec.max_pivots, spec.margin, spec.screen, spec.batch_invariant) == (3, 0.5, "mixed", True)
    assert (spec.decision, spec.model, spec.max_hours) == ((0.01, 0.1), "x/y", 2.0)


def test_flags_win_over_presets_and_files(tmp_path: Path) -> None:
    """The order is defaults, preset or file, flags."""
    assert asked("paper-batch-invariant", "--no-batch-invariant", "--problems", "3").spec.batch_invariant is False
    path = tmp_path / "spec.toml"
    path.write_text("k = 8\nproblems = 7\n")
    spec = asked(str(path), "--k", "2").spec
    assert (spec.k, spec.problems) == (2, 7)


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset_is_a_valid_spec(name: str) -> None:
    """What ships passes its own checks."""
    assert asked(name).spec.problems >= 1


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("max_pivot = 3", "unknown field 'max_pivot'; did you mean `max_pivots`?"),
        ("what = 3", "unknown field 'what'; `refeed-tui launch --help` lists fields"),
        ("k = 'four'", "`$.k`; it is 'four'"),
        ("k = 0", "`k` is 0"),
        ("decision = [0.5, 0.1]", "`decision`"),
        ("screen = 'mixed'\nrollouts = 1", "`screen`"),
        ("price_per_hour = 'dear'", "`price_per_hour`"),
        ("price_per_hour = -1.0", "`price_per_hour`"),
        ("max_cost = 5.0", "`max_cost`"),
        ("name = 3", "`name`"),
    ],
)
def test_bad_fields_of_a_file_are_spec_errors_that_name_them(text: str, named: str, tmp_path: Path) -> None:
    """Unknown fields, wrong types, ranges and combinations."""
    path = tmp_path / "spec.toml"
    path.write_text(text)
    with pytest.raises(RefeedError) as caught:
        asked(str(path))
    assert caught.value.kind == "spec"
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"), [(b"k = \n", "line 1"), (b"\xff", "not a TOML file"), (None, "No such file")]
)
def test_files_that_cannot_be_read_are_spec_errors(content: bytes | None, said: str, tmp_path: Path) -> None:
    """The message names the file, and the line where TOML knows one."""
    path = tmp_path / "spec.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RefeedError) as caught:
        asked(str(path))
    assert caught.value.kind == "spec"
    assert str(path) in caught.value.message
    assert said in caught.value.message


def test_neither_preset_nor_file_lists_the_presets() -> None:
    """A mistyped preset is answered with those that there are."""
    with pytest.raises(RefeedError) as caught:
        asked("dem")
    assert caught.value.kind == "spec"
    assert "demo" in caught.value.hint


@pytest.mark.parametrize("text", ["0.02", "a,b", "1,2,3", ""])
def test_a_bad_pair_is_a_usage_error(text: str) -> None:
    """--decision wants two numbers."""
    with pytest.raises(click.BadParameter, match="two numbers"):
        parse("--decision", text)


def test_name_and_price_come_from_the_file_and_flags_win(tmp_path: Path) -> None:
    """Both are outside the spec, and a file may hold them."""
    path = tmp_path / "spec.toml"
    path.write_text("name = 'night'\nprice_per_hour = 3\nmax_cost = 10")
    found = combine(str(path), {}, name=None, price_per_hour=None)
    assert (found.name, found.price_per_hour) == ("night", 3.0)
    found = combine(str(path), {}, name="day", price_per_hour=1.5)
    assert (found.name, found.price_per_hour) == ("day", 1.5)


def test_a_printed_spec_reads_back_to_itself() -> None:
    """`--dry-run > spec.toml` registers the same campaign."""
    for name in PRESETS:
        spec = asked(name, "--max-hours", "0.1", "--temperature", "1").spec
        assert from_fields(dict(tomllib.loads(to_toml(spec)))) == spec


@settings(deadline=None)  # the first example pays for imports
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.floats(min_value=1e-9, max_value=1e9))
def test_any_text_and_number_of_a_spec_reads_back(text: str, margin: float) -> None:
    """Quotes, newlines and control characters in a prompt survive TOML, and none of them is printed raw."""
    spec = msgspec.structs.replace(CampaignSpec(), prompt=text, margin=margin)
    printed = to_toml(spec)
    assert from_fields(dict(tomllib.loads(printed))) == spec
    assert not any(unicodedata.category(character) in UNSAFE and character != "\n" for character in printed)


def test_the_help_of_fields_survives_an_interpreter_without_docstrings() -> None:
    """`python -OO` drops docstrings; what a field means is part of its type."""
    code = "from sessions.spec import described\nprint([field.name for field in described() if not field.help])"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
