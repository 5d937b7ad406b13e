"""`--help` of a verb with many options: grouped under headings, the less common groups under `--help-all`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from typer._click.core import Context, Parameter
from typer._click.formatting import HelpFormatter
from typer.core import TyperCommand

__all__ = ["print_all", "sectioned"]

_REST = "Options"
_ALL = "help_all"
_TYPE = re.compile(r" <list\[str\]>$")  # how Python holds an argument is nothing to a reader


def sectioned(sections: Mapping[str, Sequence[str]], folded: Collection[str] = ()) -> type[TyperCommand]:
    """A command whose help shows each option under the heading that names it; what no heading names comes last.

    `folded`: headings that `--help` only names, and `--help-all` shows.
    """

    class Sectioned(TyperCommand):
        def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
            known = {str(param.name): param for param in self.get_params(ctx)}
            hidden = () if ctx.meta.get(_ALL) else folded
            for heading, names in _headings(known, sections):
                records = [known[name].get_help_record(ctx) for name in names if name in known]
                shown = [(_TYPE.sub("", said), text) for said, text in filter(None, records)]
                if shown and heading not in hidden:
                    with formatter.section(heading):
                        formatter.write_dl(shown)
            if hidden:
                formatter.write_paragraph()
                formatter.write_text(f"More with --help-all: {', '.join(hidden)}.")

    return Sectioned


def _headings(
    known: Mapping[str, Parameter], sections: Mapping[str, Sequence[str]]
) -> list[tuple[str, Sequence[str]]]:
    arguments = [name for name, param in known.items() if param.param_type_name == "argument"]
    placed = {name for names in sections.values() for name in names}
    rest = [name for name in known if name not in placed and name not in arguments]
    return [("Arguments", arguments), *sections.items(), (_REST, rest)]


def print_all(ctx: Context, wanted: bool) -> None:
    """The callback of `--help-all`."""
    if wanted and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        print(ctx.get_help())
        ctx.exit()
