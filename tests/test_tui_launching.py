"""From a draft to a session on disk."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from sessions.disk.hooks import kept
from sessions.errors import RefeedError
from sessions.spec import CampaignSpec, register
from sessions.store import Store
from tui.setup import launching
from tui.setup.draft import Draft
from tui.setup.launching import create, teller

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of one's own."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path))
    return tmp_path


def test_a_draft_becomes_a_session_whose_command_is_kept() -> None:
    """Name, price, settings and the command that hears of events arrive where `launch` puts them."""
    draft = Draft("smoke")
    for name, text in (("name", "night"), ("price_per_hour", "2.5"), ("k", "3"), ("on_event", "sh -c 'cat > told'")):
        draft.set(name, text)
    folder = create(draft.asked(), draft.on_event())
    found = folder.registration()
    assert (found.name, found.price_per_hour, found.campaign().k) == ("night", 2.5, 3)
    command = kept(folder)
    assert command is not None
    assert command.argv[0].endswith("/sh")
    assert command.argv[1:] == ("-c", "cat > told")


def test_what_takes_long_is_said_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what is over within a second; then one line in some seconds, with how far it is."""
    lines: list[str] = []
    hear = teller("registering", lines.append)
    hear("checking the weights", 0.25)
    assert lines == []
    monkeypatch.setattr(launching, "SAY_EVERY", 0.0)
    hear("checking the weights", 0.5)
    hear("checking\nthe weights", 0.754)
    assert lines == ["registering: checking the weights, 50%", "registering: checking\\nthe weights, 75%"]


def test_without_a_command_none_is_kept() -> None:
    """Empty text takes it back."""
    draft = Draft("smoke")
    draft.set("on_event", "sh")
    draft.set("on_event", "")
    assert draft.origin("on_event") == "default"
    assert kept(create(draft.asked(), draft.on_event())) is None


def test_a_taken_name_makes_no_second_session() -> None:
    """Two sessions of one name could not be told apart, whoever makes them."""
    draft = Draft("smoke")
    draft.set("name", "night")
    create(draft.asked(), None)
    with pytest.raises(RefeedError, match="'night' is taken"):
        create(draft.asked(), None)
    assert len(Store().folders()) == 1


def test_of_launches_at_the_same_time_one_gets_the_name(tmp_path: Path) -> None:
    """Whoever comes second waits until the first has its name, and is refused."""
    ours = register(CampaignSpec(engine="embedded", task="arithmetic"), name="night")

    def attempt(_number: int) -> str:
        try:
            return Store(tmp_path).create_named(ours).id
        except RefeedError as error:
            return error.message

    with ThreadPoolExecutor(8) as pool:
        said = set(pool.map(attempt, range(16)))
    (folder,) = Store(tmp_path).folders()
    assert said == {folder.id, f"the name 'night' is taken by session {folder.id}"}


def test_a_home_where_nothing_can_be_made_is_one_line(tmp_path: Path) -> None:
    """A file in the way, for one, is said with the place."""
    (tmp_path / "sessions").write_text("in the way")
    with pytest.raises(RefeedError, match="cannot make a session in"):
        Store(tmp_path).create_named(register(CampaignSpec(engine="embedded", task="arithmetic"), name="night"))
