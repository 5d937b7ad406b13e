"""What the site has beyond the pages of docs/: reference pages made from the code, evidence, the design.

mkdocs calls these functions. A link to a page outside docs/ leads to its copy in the site; a link to any other file
becomes its path in the repository, so that the site needs no network and no checkout.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer._click.core import Command, Context

import paceline
from paceline.cli.main import VERBS, load
from paceline.store.analysis_schema import AnalysisFile
from paceline.store.study_schema import StudyFile

ROOT = Path(__file__).resolve().parents[1]
PICTURES = {".png", ".svg"}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    made = {
        "reference/commands.md": commands_page(),
        "reference/python.md": python_page(),
        "reference/study-file.md": study_page(),
        "reference/analysis.md": analysis_page(),
        "design.md": (ROOT / "DESIGN.md").read_text(encoding="utf-8"),
        **{
            page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
            for page in sorted((ROOT / "evidence").rglob("README.md"))
        },
    }
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    pictures = (path for path in (ROOT / "evidence").rglob("*") if path.suffix in PICTURES)
    for path in pictures:
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links as they lead in the repository -> links as they lead in the site."""
    own = page.file.src_uri
    folder = _at(own).parent

    def moved(link: re.Match[str]) -> str:
        picture, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        there = (folder / target).resolve()
        if (name := _in_site(there, files)) is not None:
            return f"{picture}[{text}]({os.path.relpath(name, Path(own).parent)}{anchor})"
        path = there.relative_to(ROOT).as_posix()
        return f"`{path}`" if text in (path, there.name, "evidence") else f"{text} (`{path}`)"

    return _LINK.sub(moved, markdown)


def _at(name: str) -> Path:
    """Where the source of a page of the site lies in the repository."""
    if name == "design.md":
        return ROOT / "DESIGN.md"
    return ROOT / name if name.startswith("evidence/") else ROOT / "docs" / name


def _in_site(path: Path, files: Files) -> str | None:
    """The page or picture of the site that this file of the repository became."""
    if path == ROOT / "DESIGN.md":
        return "design.md"
    if path == ROOT / "README.md":
        return "index.md"
    path = path / "README.md" if path.is_dir() else path
    for base in (ROOT / "docs", ROOT):
        if path.is_relative_to(base) and files.get_file_from_path(path.relative_to(base).as_posix()):
            return path.relative_to(base).as_posix()
    return None


def commands_page() -> str:
    """Every verb with its options, from the command line's own definition."""
    parts = ["# Commands\n\nMade from the code. `paceline VERB --help` prints the same."]
    for verb, (module, _, line) in VERBS.items():
        command = load(verb)
        sections: Mapping[str, list[str]] = getattr(importlib.import_module(module), "SECTIONS", {})
        parts.append(f"## paceline {verb}\n\n{line}\n\n{usage(command, verb)}\n")
        parts += option_tables(command, sections)
    return "\n".join(parts) + "\n"


def usage(command: Command, verb: str) -> str:
    """The usage line, then what the verb says of itself, its commands as code."""
    context = Context(command, info_name=f"paceline {verb}", **command.context_settings)
    said = [" ".join(part.split()) for part in re.split(r"\n\s*\n", command.help or "") if part.strip()]
    lines = [f"    {part}" if part.startswith("paceline ") else part for part in said]
    return "\n\n".join([f"    {command.get_usage(context).removeprefix('Usage: ')}", *lines])


def option_tables(command: Command, sections: Mapping[str, list[str]]) -> Iterator[str]:
    """Its options under the headings of its help; what no heading names comes last."""
    context = Context(command, **command.context_settings)
    records = {param.name: param.get_help_record(context) for param in command.get_params(context)}
    placed = {name for names in sections.values() for name in names}
    rest = [name for name in records if name not in placed]
    for heading, names in [*sections.items(), ("Options" if sections else "", rest)]:
        rows = [
            f"| `{said.replace('|', chr(92) + '|')}` | {_cell(text)} |"
            for said, text in filter(None, (records.get(name) for name in names))
        ]
        if rows:
            title = f"\n**{heading}**\n" if heading else ""
            yield "\n".join([title, "| option | meaning |", "|---|---|", *rows, ""])


def python_page() -> str:
    """What `import paceline` offers, from its docstrings; their examples are executed by the tests."""
    verbs = [name for name in paceline.__all__ if inspect.isfunction(getattr(paceline, name))]
    parts = [
        "# Python\n\nMade from the code; every example is executed by the tests. "
        "What goes wrong is a `PacelineError` with a `message` and a `hint`. "
        "`examples/four-or-eight.ipynb` is a notebook to start from."
    ]
    parts += [_callable(f"paceline.{name}", getattr(paceline, name)) for name in verbs]
    for kind in (paceline.Result, paceline.Picture):
        parts.append(f"## {kind.__name__}\n\n{_docstring(kind)}\n")
        members = {name: m for name, m in vars(kind).items() if not name.startswith("_") and m.__doc__}
        rows = [
            f"| `{name}{'' if isinstance(m, property) else _signature(m)}` | {_cell(_docstring(m).splitlines()[0])} |"
            for name, m in members.items()
            if isinstance(m, property) or inspect.isfunction(m)
        ]
        parts.append("\n".join(["| member | what |", "|---|---|", *rows, ""]))
    return "\n".join(parts) + "\n"


def _callable(name: str, function: Callable[..., object]) -> str:
    return f"## {name}\n\n    {name}{_signature(function)}\n\n{_docstring(function)}\n"


def _signature(function: Callable[..., object]) -> str:
    """Names and defaults; types are in the code."""
    found = inspect.signature(function)
    bare = [
        p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values() if p.name != "self"
    ]
    return str(inspect.Signature(bare))


def _docstring(of: object) -> str:
    """Its words, with examples as blocks of code."""
    lines = (inspect.getdoc(of) or "").splitlines()
    return "\n".join(f"    {line}" if _example(lines, i) else line for i, line in enumerate(lines))


def _example(lines: list[str], i: int) -> bool:
    """Whether this line is of an example: from a prompt to the next empty line."""
    start = next((j for j in range(i, -1, -1) if lines[j].startswith(">>>") or not lines[j].strip()), i)
    return lines[start].startswith(">>>")


def study_page() -> str:
    """The fields of study.toml."""
    return (
        "# study.toml\n\nMade from the code. What a study was asked; `paceline schema study` prints it as JSON schema, "
        "[`paceline study`](study.md) writes and reads it.\n\n" + schema_tables(StudyFile.model_json_schema())
    )


def analysis_page() -> str:
    """The fields of analysis.json."""
    return (
        "# analysis.json\n\nMade from the code. What a study found; `--json` prints it, and `paceline schema` prints "
        "its JSON schema. Units are at the end of a name: `_s`, `_bytes`, `_per_s`, `_ratio` (0 to 1). "
        "[Numbers](numbers.md) says how each is measured.\n\n"
        + schema_tables(AnalysisFile.model_json_schema())
    )


def schema_tables(schema: Mapping[str, Any]) -> str:
    """A table of fields for the file itself and for every table in it."""
    tables = [("The file", schema), *sorted(schema.get("$defs", {}).items())]
    return "\n".join(_fields(name, table) for name, table in tables if "properties" in table)


def _fields(name: str, table: Mapping[str, Any]) -> str:
    said = f"\n{table['description']}\n" if "description" in table else ""
    needed = set(table.get("required", []))
    rows = [
        f"| `{field}` | {kind(what)} | {'must be given' if field in needed else _default(what)} |"
        for field, what in table["properties"].items()
    ]
    return "\n".join([f"## {name}", said, "| field | holds | default |", "|---|---|---|", *rows, ""])


def kind(what: Mapping[str, Any]) -> str:
    """What a field may hold, in words."""
    if "$ref" in what:
        name = what["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in what:
        return " or ".join(kind(one) for one in what["anyOf"])
    if "enum" in what:
        return ", ".join(f"`{value}`" for value in what["enum"])
    if "const" in what:
        return f"`{what['const']}`"
    if what.get("type") == "array":
        each = what.get("prefixItems") or [what.get("items", {})]
        return "list of " + ", ".join(kind(one) for one in each)
    if what.get("type") == "object":
        inside = what.get("additionalProperties")
        return f"table of {kind(inside)}" if isinstance(inside, Mapping) else "table"
    least = what.get("minimum", what.get("exclusiveMinimum"))
    word = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
    limit = "" if least is None else f" {'above' if 'exclusiveMinimum' in what else 'of at least'} {least}"
    return word.get(what.get("type", ""), what.get("type", "anything")) + limit


def _default(what: Mapping[str, Any]) -> str:
    value = what.get("default")
    return "" if value is None or value in ([], {}) else f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")
