"""Draw a session's dashboard as SVG, for the README.

    python benchmarks/screenshot.py SESSION --out docs/screenshot.svg

The picture is what the dashboard draws for that session; nothing is made up for it. With --position it is a replay
after that many events.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sessions.store import Store
from tui.dashboard.app import RefeedApp
from tui.dashboard.screens.campaign import CampaignScreen
from tui.dashboard.screens.replay import ReplayScreen


async def draw(args: argparse.Namespace) -> str:
    """The screen as SVG."""
    folder = Store().find(args.session)
    mode = "attach" if args.position is None else "replay"
    app = RefeedApp(folder, mode=mode, speed=0.125, ascii_only=False)
    width, height = (int(part) for part in args.size.split("x"))
    async with app.run_test(size=(width, height)) as pilot:
        app.theme = f"refeed-{args.theme}"
        screen = app.screen
        while not isinstance(screen, CampaignScreen) or not screen.session.caught_up:
            await pilot.pause(0.05)
            screen = app.screen
        if args.position is not None and isinstance(screen, ReplayScreen) and screen.tape is not None:
            screen.tape.playing = False
            screen.seek(args.position)
        for key in args.keys:
            await pilot.press(key)
        await pilot.pause(1.0)
        screen.repaint(force=True)
        await pilot.pause(0.5)
        return app.export_screenshot(title=f"refeed-tui attach {folder.name or folder.id}", simplify=True)


def main() -> None:
    """Parse and draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("session", help="id, prefix, name or folder")
    parser.add_argument("--out", type=Path, default=Path("docs/screenshot.svg"))
    parser.add_argument("--size", default="120x40")
    parser.add_argument("--theme", choices=("dark", "light"), default="dark")
    parser.add_argument("--keys", default="", help="keys to press first, e.g. 3 for the heat map")
    parser.add_argument("--position", type=int, help="replay this many events instead of all")
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(asyncio.run(draw(args)), encoding="utf-8")
    print(args.out)


if __name__ == "__main__":
    main()
