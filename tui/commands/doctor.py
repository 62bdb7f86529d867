"""`refeed-tui doctor`: what is wrong with this machine."""

from __future__ import annotations

from dataclasses import asdict

import click

from sessions.text import one_line
from tui import errors
from tui.commands.base import Command, json_option
from tui.console import say, say_json


@click.command(
    cls=Command,
    examples=(
        "refeed-tui doctor",
        "refeed-tui doctor --model Qwen/Qwen2.5-7B-Instruct",
        "refeed-tui doctor --attention-backend TRITON_ATTN --tensor-parallel 2",
        "refeed-tui doctor --json",
    ),
)
@click.option(
    "--model",
    metavar="MODEL",
    help="Also ask whether this model can be had: a folder, or a name on the hub, which is asked for sizes and access.",
)
@click.option("--revision", metavar="REVISION", help="Of that model on the hub: branch, tag or commit.")
@click.option(
    "--attention-backend", metavar="NAME", help="Also ask whether vLLM has this attention backend and uses it here."
)
@click.option("--tensor-parallel", type=click.IntRange(min=1), help="Also ask whether vLLM sees as many GPUs.")
@json_option
def command(
    model: str | None, revision: str | None, attention_backend: str | None, tensor_parallel: int | None, as_json: bool
) -> int:
    """Look at everything a campaign needs from this machine; exit code 1 when something will fail."""
    if revision is not None and model is None:
        raise click.UsageError("--revision needs --model")
    from tui.commands.machine import examine  # noqa: PLC0415 - it looks at every package; `--help` need not

    asked = {"attention_backend": attention_backend, "tensor_parallel": tensor_parallel}
    checks = examine(model, revision, {name: value for name, value in asked.items() if value is not None})
    bad = any(check.status == "problem" for check in checks)
    if as_json:
        say_json({"ok": not bad, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            say(f"{check.status:<8} {check.name:<16} {one_line(check.detail)}")
            if check.hint:
                say(f"{'':<25} {one_line(check.hint)}")
    return errors.FAILED if bad else errors.DONE
