"""Widgets: tables that keep their place, plots that leak nothing, ink that is never colour alone."""

from __future__ import annotations

import gc
import resource
from typing import TYPE_CHECKING

import pytest
from textual.app import App
from textual.filter import Monochrome, NoColor

from tests.helpers.tui_journals import Script
from tests.helpers.tui_pilot import opened, screen_text
from tui.dashboard.style import DARK, INKS, LIGHT, THEMES, wants_ascii
from tui.dashboard.widgets.plot import Figure, Level, Plot, Series, drawn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from textual.app import ComposeResult

    from tui.dashboard.style import Span


def text(rows: Sequence[Sequence[Span]]) -> list[str]:
    """Rows without inks."""
    return ["".join(part for part, _ in row) for row in rows]


def figure(points: int = 20) -> Figure:
    """A rising line with a level."""
    xs = tuple(float(n) for n in range(1, points + 1))
    return Figure(
        (Series(xs, tuple(x / points for x in xs), "refeed", "line", "re-feed"),),
        (1.0, float(points)),
        (0.0, 1.0),
        ((1.0, "1"), (float(points), str(points))),
        ((0.0, "0%"), (1.0, "100%")),
        (Level(0.5, "warn"),),
    )


def test_a_plot_fills_its_size_and_names_its_series() -> None:
    """Every row has the asked width; ticks, level and label are there in their inks."""
    rows = drawn(figure(), 60, 12)
    assert len(rows) == 12
    assert {len(row) for row in text(rows)} == {60}
    inks = {ink for row in rows for part, ink in row if part.strip()}
    assert {"refeed", "warn", "muted"} <= inks
    assert any("re-feed" in row for row in text(rows))
    assert text(rows)[0].startswith("100%")


def test_a_plot_in_ascii_is_ascii() -> None:
    """Lines, dots and axes have ASCII forms."""
    both = Figure(
        (*figure().series, Series((1.0, 20.0), (0.1, 0.9), "floor", "thin"), Series((5.0,), (0.5,), "good", "dots"))
    )
    assert all(row.isascii() for row in text(drawn(both, 60, 12, ascii_only=True)))


@pytest.mark.parametrize("size", [(0, 0), (1, 1), (15, 3), (16, 4), (200, 4), (20, 60)])
def test_a_plot_survives_every_size(size: tuple[int, int]) -> None:
    """No size breaks it, however small."""
    rows = drawn(figure(), *size)
    assert len(rows) <= max(1, size[1])


def test_an_empty_plot_says_why() -> None:
    """Without points, the reason stands in the plot's place."""
    assert text(drawn(Figure(empty="nothing yet"), 40, 8)) == ["nothing yet"]


def test_many_redraws_keep_no_memory() -> None:
    """A thousand redraws of a changing figure leave the process no larger than a few megabytes."""
    for points in range(2, 60):
        drawn(figure(points), 50, 10)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(1000):
        drawn(figure(2 + number % 60), 50, 10)
    gc.collect()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096


class _Plotted(App[None]):
    def compose(self) -> ComposeResult:
        yield Plot(id="plot")


async def test_a_plot_is_drawn_again_only_when_it_changed() -> None:
    """The same figure costs nothing."""
    app = _Plotted()
    async with app.run_test(size=(60, 20)) as pilot:
        plot = app.query_one(Plot)
        plot.show(figure())
        await pilot.pause(0.1)
        draws = plot.draws
        plot.show(figure())
        plot.refresh()
        await pilot.pause(0.1)
        assert plot.draws == draws
        plot.show(figure(30))
        await pilot.pause(0.1)
        assert plot.draws == draws + 1


async def test_every_cell_has_a_style(tmp_path: Path) -> None:
    """Textual's monochrome filter breaks on segments without a style; no panel has one."""
    script = Script(tmp_path)
    script.begin()
    script.problem(0, script.nets())
    script.finish()
    async with opened(script.folder, (120, 40)) as (app, pilot):
        for key in "12345678":
            await pilot.press(key)
            await pilot.pause(0.2)
            for strip in app.screen._compositor.render_strips():
                segments = list(strip)
                assert all(segment.style is not None for segment in segments)
                Monochrome().apply(segments, app.screen.background_colors[1])
                NoColor().apply(segments, app.screen.background_colors[1])


async def test_no_color_keeps_every_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under NO_COLOR the screen says the same words, and plots too."""
    script = Script(tmp_path)
    script.begin()
    for problem in range(3):
        script.problem(problem, script.nets())
    script.finish()
    async with opened(script.folder) as (app, _):
        coloured = screen_text(app)
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(script.folder) as (app, _):
        assert app.no_color
        assert screen_text(app) == coloured
        assert "re-feed" in coloured


def test_inks_have_colours_in_both_themes() -> None:
    """Every ink is styled for dark and light, and both name the same variables."""
    assert DARK.keys() == LIGHT.keys()
    assert {name.removeprefix("ink-") for name in DARK} >= set(INKS) - {"cursor"}


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
def test_text_has_contrast(palette: dict[str, str]) -> None:
    """Words reach a contrast of 4.5 to 1 on the theme's backgrounds (WCAG AA)."""
    theme = THEMES[0] if palette is DARK else THEMES[1]
    for name, colour in palette.items():
        if name.endswith("-ground"):
            continue
        ground = palette.get(f"{name}-ground")
        for background in [ground] if ground else [theme.background, theme.surface, theme.panel]:
            assert background is not None
            assert contrast(colour, background) >= 4.5, f"{name} on {background}"


def test_refeed_and_floor_differ_for_colour_blind_people() -> None:
    """Simulated protanopia, deuteranopia and tritanopia keep the two apart."""
    for palette in (DARK, LIGHT):
        for matrix in BLINDNESS.values():
            one, other = (seen(palette[name], matrix) for name in ("ink-refeed", "ink-floor"))
            assert sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5 > 0.25


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "dumb", "LANG": "C.UTF-8"}, True),
        ({"TERM": "linux", "LANG": "C.UTF-8"}, True),
        ({"TERM": "xterm-256color", "LC_ALL": "C"}, True),
    ],
)
def test_terminals_without_unicode_are_known(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], *, expected: bool
) -> None:
    """Dumb terminals, the console and plain locales get ASCII."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG", "PYTHONUTF8", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_ascii() is expected


# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
BLINDNESS = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def linear(colour: str) -> tuple[float, float, float]:
    """Linear RGB of "#rrggbb"."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return red, green, blue


def seen(colour: str, matrix: tuple[tuple[float, ...], ...]) -> list[float]:
    """A colour as a colour-blind person sees it, with the display's gamma, 0 to 1."""
    rgb = linear(colour)
    mixed = [sum(a * b for a, b in zip(row, rgb, strict=True)) for row in matrix]
    return [max(0.0, min(1.0, value)) ** (1 / 2.2) for value in mixed]


def contrast(one: str, other: str) -> float:
    """WCAG contrast ratio."""
    weights = (0.2126, 0.7152, 0.0722)
    lights = sorted(sum(w * part for w, part in zip(weights, linear(colour), strict=True)) for colour in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)
