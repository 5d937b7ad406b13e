"""Names, log lines and metrics come from other people's programs: here they become harmless in each format.

HTML is escaped by the template itself.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["ascii_text", "csv_cell", "latex_text", "markdown_text", "visible"]

_ASCII = {
    "±": "+/-",
    "–": "-",
    "−": "-",
    "×": "x",
    "µ": "u",
    "⁹": "^9",
    "→": "->",
    "≥": ">=",
    "≤": "<=",
    "…": "...",
    "·": "-",
}
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "±": r"$\pm$",
    "–": r"\textendash{}",
    "−": "$-$",
    "×": r"$\times$",
    "µ": r"$\mu$",
    "⁹": "$^9$",
    "→": r"$\rightarrow$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "…": r"\ldots{}",
    "·": r"$\cdot$",
}
_MARKDOWN = re.compile(r"([\\`*_\[\]|~#!])")
_DASHES = re.compile("-(?=-)")  # two in a row would become a longer dash
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def visible(text: str) -> str:
    """The text without control characters (terminal escapes, right-to-left overrides); lines and tabs stay."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs") else "�" for c in text
    )


def ascii_text(text: str) -> str:
    """Plain ASCII, for systems that accept nothing else."""
    known = "".join(_ASCII.get(c, c) for c in visible(text))
    letters = (c for c in unicodedata.normalize("NFKD", known) if not unicodedata.combining(c))
    return "".join(letters).encode("ascii", "replace").decode("ascii")


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, on one line, also inside a table."""
    line = " ".join(visible(text).split())
    html = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", html)


def latex_text(text: str) -> str:
    """Text that LaTeX sets as it is; a character that a plain LaTeX has no glyph for is named by its code."""
    line = " ".join(visible(text).split())
    shown = "".join(_LATEX.get(c) or (c if ord(c) < 0x100 else f"[U+{ord(c):04X}]") for c in line)
    return _DASHES.sub("-{}", shown)


def csv_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula: such a text gets an apostrophe in front."""
    shown = visible(text)
    if shown.lstrip()[:1] in ("=", "+", "-", "@", "\t") and not _NUMBER.fullmatch(shown):
        return f"'{shown}"
    return shown
