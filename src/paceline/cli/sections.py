"""`--help` of a verb with many options: grouped under headings, instead of one list of fifty."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from typer._click.core import Context
from typer._click.formatting import HelpFormatter
from typer.core import TyperCommand

__all__ = ["sectioned"]

_REST = "Options"
_TYPE = re.compile(r" <list\[str\]>$")  # how Python holds an argument is nothing to a reader


def sectioned(sections: Mapping[str, Sequence[str]]) -> type[TyperCommand]:
    """A command whose help shows each option under the heading that names it; what no heading names comes last."""

    class Sectioned(TyperCommand):
        def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
            known = {param.name: param for param in self.get_params(ctx)}
            arguments = [name for name, param in known.items() if param.param_type_name == "argument"]
            placed = {name for names in sections.values() for name in names}
            rest = [name for name in known if name not in placed and name not in arguments]
            for heading, names in [("Arguments", arguments), *sections.items(), (_REST, rest)]:
                records = [known[name].get_help_record(ctx) for name in names if name in known]
                if shown := [(_TYPE.sub("", said), text) for said, text in filter(None, records)]:
                    with formatter.section(heading):
                        formatter.write_dl(shown)

    return Sectioned
