"""Letters that a terminal cannot show, in letters that it can: µs as us, not as ?s, which might be ms."""

from __future__ import annotations

import codecs

__all__ = ["PLAIN"]

PLAIN = "paceline-plain"  # the name of the error handler, for stream.reconfigure(errors=…)
_PLAIN_FOR = {
    "µ": "u", "±": "+-", "×": "x", "·": "*", "–": "-", "−": "-", "…": "...", "→": "->", "≥": ">=", "≤": "<=",
    "²": "^2", "✓": "yes", "✗": "no", "€": "EUR", "£": "GBP",
    "█": "#", "▒": "=", "░": "-",
}  # fmt: skip


def _in_plain_letters(problem: UnicodeError) -> tuple[str, int]:
    """What stands for the letters that could not be encoded, and where to go on."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    missing = problem.object[problem.start : problem.end]
    return "".join(_PLAIN_FOR.get(letter, "?") for letter in missing), problem.end


codecs.register_error(PLAIN, _in_plain_letters)
