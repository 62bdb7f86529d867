"""The dashboard: opens a session or the home screen, owns themes, signals and commands to workers."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from textual import work
from textual.app import App
from textual.binding import Binding
from textual.scrollbar import ScrollBar, ScrollBarRender

from sessions.errors import RefeedError
from sessions.text import one_line
from tui.dashboard import terminal as clipboard
from tui.dashboard.screens import dialogs
from tui.dashboard.screens.campaign import CampaignScreen
from tui.dashboard.screens.dialogs import Text
from tui.dashboard.screens.replay import ReplayScreen
from tui.dashboard.style import ASCII, DARK, LIGHT, THEMES, UNICODE, wants_ascii
from tui.dashboard.terminal import end_for_sure, handle_signals, notification, watch_tty
from tui.viewer.session import LiveSession, Parting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.app import SystemCommand
    from textual.screen import Screen

    from sessions.store import SessionFolder
    from tui.dashboard.services import Command
    from tui.dashboard.style import Glyphs

Mode = Literal["attach", "replay", "home"]

SIGHUP: Final = 129


class AsciiBars(ScrollBarRender):
    """Scrollbars without partial blocks."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8


class RefeedApp(App[Parting]):
    """The dashboard.

    Attributes:
        glyphs: marks that this terminal can show.
        slow: whether everything runs at half rate, for bad links.
    """

    CSS_PATH = Path(__file__).with_name("app.tcss")  # whichever module a subclass lives in
    TITLE = "refeed-tui"
    # Textual declares these as instance variables
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-medium"), (170, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (34, "-tall"), (50, "-taller")]  # noqa: RUF012
    BINDINGS: ClassVar = [
        Binding("q,ctrl+c", "leave", "leave", priority=False),
        Binding("question_mark", "help", "help"),
        Binding("0", "home", "all sessions", show=False),
    ]

    def __init__(
        self,
        folder: SessionFolder | None,
        *,
        mode: Mode,
        speed: float = 1.0,
        ascii_only: bool | None = None,
        slow: bool = False,
    ) -> None:
        super().__init__()
        self.glyphs: Glyphs = ASCII if (wants_ascii() if ascii_only is None else ascii_only) else UNICODE
        ScrollBar.renderer = AsciiBars if self.glyphs.ascii_only else ScrollBarRender
        for theme in THEMES:
            self.register_theme(theme)
        self.set_reactive(App.theme, THEMES[0].name)  # before the first frame, which would else be styled twice
        self.stylesheet.set_variables(self.get_css_variables())
        self.slow = slow
        self.mode = mode
        self.speed = speed
        self.folder = folder
        self._restore: Callable[[], None] | None = None
        self._stop = threading.Event()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Inks of the current theme, whichever it is."""
        return DARK if self.current_theme.dark else LIGHT

    def on_mount(self) -> None:
        """Take over signals and open the first screen."""
        if threading.current_thread() is threading.main_thread() and not self.is_headless:
            import asyncio  # noqa: PLC0415  (the loop exists only now)

            self._restore = handle_signals(asyncio.get_running_loop(), self._signalled)
            watch_tty(self._hung_up, self._stop)
        if self.folder is not None and self.mode != "home":
            self.open(self.folder, self.mode, speed=self.speed)
        else:
            self.push_screen(_home())

    def open(self, folder: SessionFolder, mode: Literal["attach", "replay"], *, speed: float = 1.0) -> None:
        """Show a session.

        Raises:
            RefeedError: its spec cannot be read.
        """
        session = LiveSession.of(folder, mode)
        replay = mode == "replay"
        self.push_screen(ReplayScreen(session, speed=speed) if replay else CampaignScreen(session))

    def on_unmount(self) -> None:
        """Give signals back."""
        self._stop.set()
        if self._restore is not None:
            self._restore()

    # Ends

    def _signalled(self, code: int) -> None:
        self.exit(Parting(exit_code=code), return_code=code)

    def _hung_up(self) -> None:
        end_for_sure(SIGHUP)
        self.call_from_thread(self._signalled, SIGHUP)

    def action_leave(self) -> None:
        """Leave with the last words of the session that is shown; a running campaign goes on."""
        shown = self.campaign
        self.exit(Parting() if shown is None else shown.session.parting())

    async def action_quit(self) -> None:
        """Leave in the same way by Textual's own key and palette entry."""
        self.action_leave()

    @property
    def campaign(self) -> CampaignScreen | None:
        """The session's screen, also below a dialog or the inspector; None on the home screen."""
        screens = (screen for screen in reversed(self.screen_stack) if isinstance(screen, CampaignScreen))
        return next(screens, None)

    def action_home(self) -> None:
        """All sessions; a campaign that was shown goes on."""
        if isinstance(self.screen, CampaignScreen):
            if self.mode == "home":
                self.pop_screen()
            else:
                self.mode = "home"
                self.switch_screen(_home())

    def _fatal_error(self) -> None:
        """Close without printing; `run_dashboard` raises the error where the command reports it."""
        self._close_messages_no_wait()

    @property
    def error(self) -> Exception | None:
        """What broke the dashboard; None when nothing did."""
        return self._exception

    # Services for screens

    def copy(self, text: str) -> None:
        """Copy to the terminal's clipboard and to a file."""
        self.copy_to_clipboard(text)
        try:
            path = clipboard.save(text)
        except RefeedError as error:
            self.notify(one_line(str(error)), severity="error", markup=False)
        else:
            self.notify(f"copied {len(text):,} characters; also in {one_line(str(path))}", markup=False)

    def wake(self, text: str) -> None:
        """Ring and notify the terminal, if there is something to say."""
        if text and self._driver is not None and not self.is_headless:
            self._driver.write(notification(text))

    @work(thread=True, group="command")
    def command(self, folder: SessionFolder, name: Command) -> None:
        """Send a command to the session's worker and say what it answered."""
        from engine.worker.supervisor import send  # noqa: PLC0415  (only a command needs it)

        try:
            said = send(folder, name)
        except RefeedError as error:
            self.call_from_thread(self.notify, one_line(str(error)), severity="error", markup=False)
        else:
            self.call_from_thread(self.notify, said, markup=False)

    def action_help(self) -> None:
        """Show the keys."""
        replay = isinstance(self.campaign, ReplayScreen)
        self.push_screen(Text(dialogs.keys(replay=replay)))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Commands of the palette."""
        from textual.app import SystemCommand  # noqa: PLC0415  (only the palette needs it)

        yield from super().get_system_commands(screen)
        if isinstance(screen, CampaignScreen):
            for number, title in enumerate(dialogs.PANELS, start=1):

                def show(number: int = number) -> None:
                    screen.call_later(screen.action_panel, number)

                yield SystemCommand(f"Panel {number}: {title}", f"Show {title.lower()}", show)
            yield SystemCommand("Copy panel", "Copy this panel as text (OSC 52 and a file)", screen.action_copy)
            yield SystemCommand("Abort campaign", "Ask, then stop the worker", screen.action_abort)


def _home() -> Screen[None]:
    from tui.dashboard.screens.home import HomeScreen  # noqa: PLC0415  (attaching need not wait for reports and exports)

    return HomeScreen()


def run_dashboard(
    folder: SessionFolder | None,
    *,
    mode: Mode,
    speed: float = 1.0,
    ascii: bool | None = None,  # noqa: A002  (the option's name)
    refresh: Literal["normal", "slow"] = "normal",
) -> int:
    """Run the dashboard until it is left. $REFEED_TUI_MOUSE = 0 leaves the mouse to the terminal.

    Args:
        folder: session to open; None for the home screen.
        mode: attach to it, replay it, or the home screen.
        speed: of a replay, recorded seconds a second.
        ascii: draw with ASCII only; None decides by the terminal.
        refresh: "slow" halves all rates.

    Returns:
        exit code: 128 + n after a signal; the run's own when its end was shown as it came; else 0.

    Raises:
        RefeedError: the session cannot be opened.
        Exception: whatever broke the dashboard, for the command to report.
    """
    app = RefeedApp(folder, mode=mode, speed=speed, ascii_only=ascii, slow=refresh == "slow")
    parting = app.run(mouse=os.environ.get("REFEED_TUI_MOUSE", "1") != "0")
    if app.error is not None:
        raise app.error
    if parting is not None and parting.words:
        sys.stdout.write(f"{parting.words}\n")
    return 0 if parting is None else parting.exit_code
