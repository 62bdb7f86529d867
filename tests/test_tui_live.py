"""The live screen says what must not be missed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from sessions.events import Ended, Notice, Opened, Paused
from tests.helpers.tui_journals import Script, imported
from tests.helpers.tui_pilot import living, opened, screen_text, session_of, settle, until, when
from tui.dashboard.panels.header import header
from tui.dashboard.panels.stage import progress
from tui.dashboard.style import UNICODE
from tui.dashboard.widgets.plot import Plot
from tui.viewer.session import Parting

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from tui.dashboard.app import RefeedApp
    from tui.dashboard.style import Line


def words(line: Line) -> str:
    """A line without its colours."""
    return "".join(text for text, _ in line)


def running(home: Path, problems: int = 12) -> Script:
    """A campaign in its 13th problem's second pass."""
    script = Script(home, name="credit-audit", price=2.5)
    script.begin(machine="AMD EPYC 9554")
    for problem in range(problems):
        script.problem(problem, script.nets())
    script.trunks(problems)
    script.passes(problems, upto=2, done=0.5)
    return script


async def test_everything_that_must_not_be_missed_is_visible_at_80_by_24(tmp_path: Path) -> None:
    """At the smallest size one screen answers: state, cache, effect, certainty, cost and end."""
    folder = running(tmp_path).folder
    with living(folder):
        async with opened(folder) as (app, _):
            text = screen_text(app)
    for said in (
        "RUNNING",
        "credit-audit",
        "elapsed 04:4",
        "left",
        "cost 0.2",
        "12/20 problems, 12 of 12 informative",
        f"digest {folder.registration().digest[:8]}",
        "AMD",
        "problem 13/20 (task 12) exact-2 [2 of 3]",
        "200/400",
        "6,010 tokens/s",
        "KV 34%",
        "0 preempted",
        "CACHE OK 100.0% verified 144 of 144 pivots, 0 failed (proof: block ledger)",
        "decode-time share",
        "re-feed ",
        "floor ",
        "excess",
        "symmetry e",
        "1/α = 20",  # noqa: RUF001  (the letter is meant)
        "lower bound",
        "plain t",
        "valid only at the planned end",
        "leave (campaign goes on)",
        "A abort",
    ):
        assert said in text, f"{said!r} is not on the screen:\n{text}"
    assert len(text.split("\n")) == 24


async def test_the_numbers_are_those_of_the_folded_state(tmp_path: Path) -> None:
    """What stands on the screen is what statistics say of the same events."""
    script = running(tmp_path)
    with living(script.folder):
        async with opened(script.folder) as (app, _):
            live = session_of(app).state.live
            text = screen_text(app)
    refeed, floor = live.common.refeed, live.common.floor
    assert f"{refeed.disagree}/{live.common.n}" in text
    assert f"{floor.disagree}/{live.common.n}" in text
    assert f"{100 * refeed.disagree / refeed.n:.1f}%" in text
    assert f"{100 * (refeed.disagree - floor.disagree) / refeed.n:+.1f}pp" in text


async def test_after_the_last_problem_the_engine_is_being_closed(tmp_path: Path) -> None:
    """No problem is being prepared once all are measured."""
    script = Script(tmp_path, settings={"problems": 2})
    script.begin()
    for problem in range(2):
        script.problem(problem, script.nets())
    with living(script.folder):
        async with opened(script.folder) as (app, _):
            text = screen_text(app)
    assert "closing the engine" in text
    assert "preparing" not in text


async def test_a_cache_failure_is_told_in_words(tmp_path: Path) -> None:
    """A failed check says that it failed, what it ended, and which request did what."""
    script = running(tmp_path, problems=3)
    script.fail(3)
    async with opened(script.folder) as (app, _):
        text = screen_text(app)
    assert "ABORTED" in text
    assert "CACHE FAILED 1 of 37 pivots" in text
    told = " ".join(text.split())
    assert "first: problem 3, rollout 3, position 145: hit 128 cached tokens, expected 144" in told
    assert "cache check failed: problem 3" in text


async def test_a_pause_says_that_the_machine_stays_billed(tmp_path: Path) -> None:
    """While the worker is paused the screen says that the machine is held, and billed."""
    script = running(tmp_path, problems=2)
    script.pause()
    with living(script.folder):
        async with opened(script.folder) as (app, _):
            text = screen_text(app)
    assert "PAUSED: the machine stays held and billed" in text
    assert "P resume" in text


async def test_a_silent_start_is_told_whole_at_80_columns(tmp_path: Path) -> None:
    """While an engine loads for minutes, how long it has said nothing is not cut off by what nobody can know yet."""
    script = Script(tmp_path, name="long")
    script.say(Opened(session=script.folder.id, version="0.1.0", host="box", pid=4242))
    script.say(Notice(kind="loading", text="importing vLLM", fraction=0.0))
    with living(script.folder):
        async with opened(script.folder) as (app, _):
            session_of(app).heard_at = time.monotonic()
            fresh = words(header(session_of(app), 79, UNICODE)[0])
            loading = words(progress(session_of(app), 79, UNICODE)[0])
            session_of(app).heard_at -= 75.0
            silent = words(header(session_of(app), 79, UNICODE)[0])
    assert "time left: after 2 problems" in fresh
    assert "silent for 01:15" in silent
    assert loading == "importing vLLM", "what only began has no share to tell"


async def test_vllm_on_a_processor_holds_no_gpu(tmp_path: Path) -> None:
    """Its processor is named, and what a pause holds is the machine."""
    script = Script(tmp_path, settings={"engine": "vllm"})
    script.begin(machine="AMD EPYC 9554", numerics={"device": "cpu", "vllm": "0.32.0"})
    script.pause()
    with living(script.folder):
        async with opened(script.folder) as (app, _):
            text = screen_text(app)
            place = words(header(session_of(app), 120, UNICODE)[1])
    assert "PAUSED: the machine stays held" in text
    assert "AMD EPYC 9554 (vllm)" in place


async def test_a_dead_worker_is_seen(tmp_path: Path) -> None:
    """A journal without an end and without a worker is interrupted, and says how to continue."""
    script = running(tmp_path, problems=2)
    async with opened(script.folder) as (app, _):
        text = screen_text(app)
    assert "INTERRUPTED" in text
    assert f"refeed-tui resume {script.folder.id}" in text


async def test_an_import_says_that_its_caches_were_not_checked(tmp_path: Path) -> None:
    """The published primary run shows its headline and claims no verified cache."""
    folder = imported(tmp_path)
    async with opened(folder) as (app, _):
        text = screen_text(app)
    assert "IMPORTED" in text
    assert "CACHE NOT INSTRUMENTED" in text
    assert "CACHE OK" not in text
    assert "20/20 problems, 20 of 20 informative" in text


async def test_events_appear_as_they_are_written(tmp_path: Path) -> None:
    """A viewer follows a journal that grows."""
    script = Script(tmp_path)
    script.begin()
    with living(script.folder):
        async with opened(script.folder) as (app, pilot):
            assert "0/20 problems" in screen_text(app)
            script.problem(0, script.nets())
            await until(app, pilot, "1/20 problems")


async def test_both_conditionings_are_on_a_key(tmp_path: Path) -> None:
    """`c` switches which pivots are eligible, and the screen says which."""
    script = running(tmp_path, problems=4)
    with living(script.folder):
        async with opened(script.folder) as (app, pilot):
            assert "eligible where any pass is nonzero" in screen_text(app)
            await pilot.press("c")
            await pilot.pause()
            counts = session_of(app).state.live.exact1
            text = screen_text(app)
    assert f"eligible where exact-1 is nonzero, n = {counts.n}" in text
    assert f"{counts.refeed.disagree}/{counts.n}" in text


async def test_a_paused_view_stays_and_says_so(tmp_path: Path) -> None:
    """Space holds the picture while events go on; space again catches up."""
    script = running(tmp_path, problems=2)
    with living(script.folder):
        async with opened(script.folder) as (app, pilot):
            await pilot.press("space")
            await pilot.pause()
            assert "VIEW PAUSED" in screen_text(app)
            script.passes(2, upto=3)
            script.pivots(2, script.nets())
            script.close(2, 12)
            await when(pilot, lambda: len(app.screen.session.state.measured) == 3, lambda: screen_text(app))  # type: ignore[attr-defined]
            await pilot.pause()
            assert "2/20 problems" in screen_text(app)
            await pilot.press("space")
            await until(app, pilot, "3/20 problems")


async def test_below_the_smallest_size_it_says_so_and_what_must_not_be_missed(tmp_path: Path) -> None:
    """A terminal of 60x20 shows state, cache and how much room is needed."""
    script = running(tmp_path, problems=2)
    with living(script.folder):
        async with opened(script.folder, size=(60, 20)) as (app, pilot):
            text = screen_text(app)
            await pilot.resize_terminal(80, 24)
            await settle(app, pilot)
            grown = screen_text(app)
    assert "60x20 is too small: 80x24 needed" in text
    assert "RUNNING" in text
    assert "cache: 24 verified" in text
    assert "too small" not in grown
    assert "symmetry e" in grown


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_ascii_terminals_get_ascii_alone(tmp_path: Path, size: tuple[int, int]) -> None:
    """With ASCII asked for, no character of the live screen is outside ASCII."""
    script = running(tmp_path, problems=4)
    with living(script.folder):
        async with opened(script.folder, size, ascii_only=True) as (app, _):
            text = screen_text(app)
    strange = {character for character in text if ord(character) > 126}
    assert not strange
    assert "1/alpha = 20" in text


async def test_what_a_model_wrote_is_plain_text(tmp_path: Path) -> None:
    """Markup is shown as it is; escape sequences come out as text and never reach the terminal."""
    script = Script(tmp_path)
    script.begin(model="evil/[bold]\x1b]0;owned\x07m")
    script.trunks(0)
    script.passes(0)
    pivot = script.pivot(0, 0, (1, 1, -1))
    import msgspec  # noqa: PLC0415

    script.say(msgspec.structs.replace(pivot, actual_text="[red]\x1b[31m", alternative_text="\x9b2J\u202e"))
    script.close(0, 1)
    with living(script.folder):
        async with opened(script.folder, (120, 40)) as (app, _):
            text = screen_text(app)
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "\u202e" not in text
    assert "[red]" in text
    assert "[bold]" in text


async def test_wide_terminals_show_problems_and_log_beside(tmp_path: Path) -> None:
    """200 columns are used: the newest problems and the log stand at the right."""
    script = running(tmp_path, problems=4)
    with living(script.folder):
        async with opened(script.folder, (200, 60)) as (app, _):
            text = screen_text(app)
    assert "Problems, newest first" in text
    assert "engine ready in 1.5 s" in text


async def test_problems_that_were_set_aside_are_counted(tmp_path: Path) -> None:
    """Screened-out and dropped problems are said beside the measured ones, and are not among them."""
    script = running(tmp_path, problems=2)
    script.close(2, 0, outcome="screened-out", reason="all trunks right")
    script.trunks(3)
    script.close(3, 0, outcome="dropped", reason="a block of a trunk was evicted")
    with living(script.folder):
        async with opened(script.folder, (120, 40)) as (app, _):
            text = screen_text(app)
    assert "2/20 problems, 2 of 2 informative, 1 screened out,  1 DROPPED" in text


async def test_a_retry_after_a_cache_abort_is_a_deviation(tmp_path: Path) -> None:
    """A run that follows a cache abort is marked as a retry, and the failure stays on the live screen."""
    script = running(tmp_path, problems=2)
    script.fail(2)
    script.clock.mono = 0.0
    script.begin()
    script.problem(2, script.nets())
    with living(script.folder):
        async with opened(script.folder, (120, 40)) as (app, pilot):
            assert "CACHE FAILED 1 of" in screen_text(app)
            await pilot.press("8")
            await pilot.pause(0.1)
            await settle(app, pilot)
            assert "RETRY after a cache abort: run 2 continued" in screen_text(app)


@pytest.mark.parametrize("problems", [1, 3])
async def test_curves_that_lie_on_each_other_are_both_named(tmp_path: Path, problems: int) -> None:
    """Equal rates share one label, and it is whole after the first problem, where the curve is a point at the left."""
    script = Script(tmp_path)
    script.begin()
    for problem in range(problems):
        script.problem(problem, script.nets(refeed=0.0, floor=0.0))
    script.finish()
    async with opened(script.folder) as (app, _):
        assert "re-feed, floor" in app.screen.query_one("#trend", Plot).text


async def test_the_doubt_of_a_verdict_is_not_cut_at_80_columns(tmp_path: Path) -> None:
    """Few pivots: "no interval" stands whole beside the verdict, and an undefined t says why."""
    script = Script(tmp_path)
    script.begin()
    for problem in range(2):
        script.problem(problem, script.nets(refeed=0.0, floor=0.0))
    with living(script.folder):
        async with opened(script.folder) as (app, _):
            text = screen_text(app)
    assert "excess  +0.0pp · NEGLIGIBLE so far, no interval" in text
    assert "plain t undefined: all 2 equal" in text


@pytest.mark.parametrize(
    ("decision", "said"), [((0.1, 0.2), "LOAD-BEARING so far, down to"), ((0.3, 0.4), "NEGLIGIBLE so far, up to")]
)
async def test_a_verdict_stands_beside_how_far_its_interval_reaches(
    tmp_path: Path, decision: tuple[float, float], said: str
) -> None:
    """At 80 columns, whole: the bound that lies on the other side of the registered threshold."""
    script = Script(tmp_path, settings={"decision": decision})
    script.begin()
    for problem in range(6):
        script.problem(problem, [(1, 1, -1)] * (1 + problem % 2) + [(1, 1, 1)] * 4)
    with living(script.folder):
        async with opened(script.folder) as (app, _):
            ci95 = session_of(app).state.live.pooled_excess("common").ci95
            text = screen_text(app)
    assert ci95 is not None
    assert ci95[0] < 0.2
    assert ci95[1] > 0.3
    end = ci95[0] if "down" in said else ci95[1]
    assert f"[{100 * ci95[0]:+.1f}, {100 * ci95[1]:+.1f}] · {said} {100 * end:+.1f}pp" in text


async def ended(app: RefeedApp, pilot: Pilot[int]) -> None:
    """Wait until the dashboard has heard of an end."""

    def heard() -> bool:
        return session_of(app).state.ended is not None

    await when(pilot, heard, lambda: f"no end was heard of:\n{screen_text(app)}")


async def test_a_failure_is_told_on_two_lines_and_again_in_the_shell(tmp_path: Path) -> None:
    """An engine that does not start says more than 80 columns hold; whoever leaves has all of it before them."""
    script = Script(tmp_path)
    script.say(Opened(session=script.folder.id, version="0.1.0", host="box", pid=4242))
    cause = "vLLM failed while loading bundled: the disk is full ([Errno 28] No space left on device); free some"
    with living(script.folder):
        async with opened(script.folder) as (app, pilot):
            script.say(Ended(state="failed", exit_code=1, reason=cause))
            await ended(app, pilot)
            first, second = (words(line) for line in progress(session_of(app), 78, UNICODE))
            last = session_of(app).parting().words
    assert " ".join((first + second).split()) == f"failed: {cause}"
    assert max(len(first), len(second)) <= 78
    assert last == f"session {script.folder.id} failed: {cause}"


async def test_whoever_only_looks_at_an_old_session_gets_no_last_words(tmp_path: Path) -> None:
    """The end that counts is one that was watched; then the way to the report is said, too."""
    script = running(tmp_path, problems=2)
    with living(script.folder):
        async with opened(script.folder) as (app, pilot):
            script.say(Ended(state="stopped", exit_code=0, reason="max_hours reached"))
            await ended(app, pilot)
            assert f"refeed-tui report {script.folder.id}" in session_of(app).parting().words
    async with opened(script.folder) as (app, _):
        assert session_of(app).parting().words == ""


async def test_leaving_a_paused_campaign_says_that_it_stays_paused(tmp_path: Path) -> None:
    """The key line and the shell's last words both say that the machine stays held, and how to go on."""
    script = running(tmp_path)
    with living(script.folder):
        async with opened(script.folder) as (app, _):
            assert "goes on." in session_of(app).parting().words
        script.say(Paused())
        async with opened(script.folder) as (app, _):
            assert "leave (stays paused)" in screen_text(app)
            words = session_of(app).parting().words
    assert "stays paused" in words
    assert f"refeed-tui resume {script.folder.id}" in words


async def test_a_campaign_that_was_left_for_the_list_has_no_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may end while the list is shown: nothing that was true when its screen was left is said afterwards."""
    monkeypatch.setenv("REFEED_TUI_HOME", str(tmp_path))
    script = running(tmp_path, problems=2)
    with living(script.folder):
        async with opened(script.folder) as (app, pilot):
            assert "goes on." in session_of(app).parting().words
            await pilot.press("0")
            await until(app, pilot, "newest first")
            script.say(Ended(state="stopped", exit_code=4, reason="max_hours reached"))
            await pilot.press("q")
    assert app.return_value == Parting()


async def test_leaving_a_campaign_returns_its_last_words_and_exit_code(tmp_path: Path) -> None:
    """The screen that is left knows the session as it is at that moment."""
    script = running(tmp_path, problems=2)
    with living(script.folder):
        async with opened(script.folder) as (app, pilot):
            script.say(Ended(state="aborted", exit_code=4, reason="a miss"))
            await ended(app, pilot)
            await pilot.press("q")
    assert app.return_value is not None
    assert app.return_value.exit_code == 4
    assert "aborted: a miss" in app.return_value.words


async def test_the_setup_panel_tells_the_time_of_a_run_in_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the report does, wherever the terminal stands."""
    script = running(tmp_path, problems=1)
    local = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(script.folder.summary().started))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        async with opened(script.folder, (120, 60)) as (app, pilot):
            await pilot.press("8")
            text = await until(app, pilot, "run 1")
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
    assert f"{local} UTC" in text
