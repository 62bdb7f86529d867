"""`refeed-tui doctor`: what is wrong with this machine."""

from __future__ import annotations

from dataclasses import asdict

import click

from tui import errors
from tui.commands.base import Command, json_option
from tui.console import say, say_json
from tui.plaintext import one_line


@click.command(
    cls=Command,
    examples=(
        "refeed-tui doctor",
        "refeed-tui doctor --model Qwen/Qwen2.5-7B-Instruct",
        "refeed-tui doctor --json",
    ),
)
@click.option(
    "--model",
    metavar="MODEL",
    help="Also ask whether this model can be had: a folder, or a name on the hub, which is asked for sizes and access.",
)
@click.option("--revision", metavar="REVISION", help="Of that model on the hub: branch, tag or commit.")
@json_option
def command(model: str | None, revision: str | None, as_json: bool) -> int:
    """Look at everything a campaign needs from this machine; exit code 1 when something will fail."""
    if revision is not None and model is None:
        raise click.UsageError("--revision needs --model")
    from tui.doctor import examine  # noqa: PLC0415 - it looks at every package; `--help` need not

    checks = examine(model, revision)
    bad = any(check.status == "problem" for check in checks)
    if as_json:
        say_json({"ok": not bad, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            say(f"{check.status:<8} {check.name:<16} {one_line(check.detail)}")
            if check.hint:
                say(f"{'':<25} {one_line(check.hint)}")
    return errors.FAILED if bad else errors.DONE
