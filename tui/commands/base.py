"""What all subcommands share: examples in their help, `--debug`, and the arguments that several of them take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Command(click.Command):
    """A subcommand whose help ends with examples."""

    def __init__(self, name: str | None, *, examples: Sequence[str] = (), **settings: Any) -> None:
        params = [*settings.pop("params", ()), debug_option()]
        super().__init__(name, params=params, **settings)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples below the options, unwrapped."""
        del ctx
        write_examples(formatter, self.examples)


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Write example lines as a section of a help text, each on its own line."""
    if not examples:
        return
    with formatter.section("Examples"):
        for line in examples:
            formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def debug_option() -> click.Option:
    """The flag that prints tracebacks; `tui.cli` reads it off the arguments, since parsing itself may fail."""
    return click.Option(["--debug"], is_flag=True, expose_value=False, help="Print the traceback of an error.")


json_option: Final[Callable[[Any], Any]] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on stdout."
)
plain_option: Final[Callable[[Any], Any]] = click.option(
    "--plain", is_flag=True, help="Print progress lines instead of the dashboard; automatic off a terminal."
)
refresh_option: Final[Callable[[Any], Any]] = click.option(
    "--refresh", type=click.Choice(["normal", "slow"]), default="normal", help="slow halves the dashboard's rates."
)
ascii_option: Final[Callable[[Any], Any]] = click.option(
    "--ascii", "ascii_only", is_flag=True, default=None, help="Draw the dashboard with ASCII [default: as the locale]."
)
session_argument: Final[Callable[[Any], Any]] = click.argument("session")
