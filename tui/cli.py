"""The `refeed-tui` command: finds the subcommand, and turns every end into its exit code.

Subcommands live in `tui.commands`, one noun a module, and are imported when they are called: `--help`, `list` and
`presets` must not pay for textual, torch or numpy.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import click

from sessions.errors import RefeedError
from sessions.text import one_line
from sessions.version import VERSION
from tui import errors
from tui.commands.base import debug_option, write_examples
from tui.console import say_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType


class Entry(NamedTuple):
    """One subcommand: its module in tui.commands, where it is `command` or NAME_command, and its line in the help."""

    module: str
    line: str


COMMANDS: Final[dict[str, Entry]] = {
    "launch": Entry("launch", "Register a campaign, start its worker, watch it."),
    "attach": Entry("attach", "Watch a running session, or look at a finished one."),
    "replay": Entry("attach", "A recorded session on its recorded clock."),
    "list": Entry("list", "Sessions, newest first."),
    "report": Entry("report", "Every number of a session, of several, or pooled."),
    "abort": Entry("control", "End a running campaign now."),
    "pause": Entry("control", "Hold a campaign before its next problem."),
    "resume": Entry("control", "Go on after a pause, or continue a session that ended early."),
    "plan": Entry("plan", "Problems, hours and cost that a decision takes."),
    "export": Entry("export", "Tables and report rows as files."),
    "import": Entry("imports", "Published per-pivot JSON, or a bundle, becomes a session."),
    "verify": Entry("verify", "Recompute the chain and the spec digest."),
    "presets": Entry("presets", "Settings that ship."),
    "doctor": Entry("doctor", "What is wrong with this machine."),
    "paths": Entry("paths", "Where things are."),
}

EXAMPLES: Final = {
    "launch": "refeed-tui launch demo       a small real campaign on this machine",
    "list": "refeed-tui list              sessions, newest first",
    "report": "refeed-tui report SESSION    every number of one",
    "doctor": "refeed-tui doctor            what is wrong with this machine",
}


class Signalled(BaseException):
    """SIGTERM or SIGHUP arrived; not an Exception, so that nothing on the way mistakes it for a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Commands(click.Group):
    """The subcommands, imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the registry: as one works with them."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one subcommand."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"tui.commands.{COMMANDS[cmd_name].module}")
        command: click.Command = getattr(module, f"{cmd_name}_command", None) or module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the registry's lines; importing every subcommand for its own would take 100 ms."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.line) for name, entry in COMMANDS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first steps below the list of subcommands."""
        del ctx
        write_examples(formatter, [text for name, text in EXAMPLES.items() if name in COMMANDS])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; an unknown one is answered with the nearest name."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(_unknown_command(args[0]))
        return super().resolve_command(ctx, args)


def _unknown_command(name: str) -> str:
    import difflib  # noqa: PLC0415 - only a mistyped command needs it

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean `{near[0]}`?" if near else "`refeed-tui --help` lists them"
    return f"no such command '{name}'; {hint}"


def _print_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    del param
    if not wanted or ctx.resilient_parsing:
        return
    click.echo(f"refeed-tui {VERSION}")
    ctx.exit()


@click.group(
    cls=Commands,
    params=[debug_option()],
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    no_args_is_help=False,
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Print the version."
)
@click.pass_context
def cli(ctx: click.Context) -> int | None:
    """Replay audits of per-token credit.

    Measures what re-feeding a transcript does to per-token credit estimates, against the floor that an exact replica
    of decode-time resume sets. Without a command, on a terminal, it opens the list of sessions.
    """
    if ctx.invoked_subcommand is not None:
        return None
    if sys.stdin.isatty() and sys.stdout.isatty():
        from tui.commands.display import has_dashboard  # noqa: PLC0415 - `--help` need not load it

        if has_dashboard(plain=False):
            from tui.dashboard.app import run_dashboard  # noqa: PLC0415 - textual costs 220 ms

            return run_dashboard(None, mode="home")
    click.echo(ctx.get_help())
    return None


def _raise_signalled(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    raise Signalled(number)


def _flagged(args: Sequence[str], flag: str) -> bool:
    """Whether a flag was given, also when parsing failed before it was reached."""
    return flag in (args[: args.index("--")] if "--" in args else args)


def _mute_stdout() -> None:
    """Let what is still buffered for a stdout that cannot be written go nowhere, so that the exit code stays ours."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(line: str, kind: str, args: Sequence[str]) -> None:
    if _flagged(args, "--json"):
        try:
            say_json({"error": {"kind": kind, "message": line}})
        except OSError:  # stdout is what failed; stderr says so
            _mute_stdout()
    sys.stderr.write(f"refeed-tui: {line}\n")


def _fail(error: BaseException, args: Sequence[str]) -> int:
    """Report an error as promised and return its exit code."""
    kind = error.kind if isinstance(error, RefeedError) else "failed"
    line = errors.sentence(error)
    if errors.needs_traceback(error):
        line = f"{line} (traceback in {errors.write_traceback(error)})"
    if _flagged(args, "--debug"):
        errors.print_traceback(error)
    _say(line, kind, args)
    return errors.EXIT_CODES[kind]


def _usage_line(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    if isinstance(error, click.UsageError) and error.ctx is not None and "`" not in message:
        message = f"{message}; `{error.ctx.command_path} --help` shows how"
    return one_line(message)


def _invoke(args: Sequence[str]) -> int:
    """Parse and run; click's own `main` would hide broken pipes and interrupts behind exit code 1."""
    try:
        with cli.make_context("refeed-tui", list(args)) as ctx:
            result = cli.invoke(ctx)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    return result if isinstance(result, int) else errors.DONE


def run(args: Sequence[str]) -> int:
    """Run the command with these arguments and return its exit code.

    Every way out ends here, with one line on stderr where something was wrong.
    """
    try:
        return _invoke(args)
    except click.ClickException as error:
        _say(_usage_line(error), "usage", args)
        return errors.USAGE
    except (KeyboardInterrupt, click.Abort):
        return errors.SIGNAL_BASE + signal.SIGINT
    except Signalled as caught:
        return errors.SIGNAL_BASE + caught.number
    except BrokenPipeError:
        return _closed_pipe()
    except Exception as error:  # noqa: BLE001 - the last line of defence: everything becomes a line and a file
        return _fail(error, args)


def _closed_pipe() -> int:
    """End quietly when the reader of stdout went away (`refeed-tui list | head`), as a Unix filter does."""
    _mute_stdout()
    return errors.SIGNAL_BASE + signal.SIGPIPE


def _complete() -> int:
    """Answer the shell's completion script (`_REFEED_TUI_COMPLETE=bash_source refeed-tui` prints it)."""
    from click.shell_completion import shell_complete  # noqa: PLC0415 - only a shell asks

    return shell_complete(cli, {}, "refeed-tui", "_REFEED_TUI_COMPLETE", os.environ["_REFEED_TUI_COMPLETE"])


def main() -> NoReturn:
    """Entry of the console script."""
    if "_REFEED_TUI_COMPLETE" in os.environ:
        sys.exit(_complete())
    signal.signal(signal.SIGTERM, _raise_signalled)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _raise_signalled)  # under nohup it stays ignored
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
