"""What people read for the names that the records use: one word for one thing, in terminal, page and hand-ins."""

from __future__ import annotations

__all__ = ["GOALS", "LEVELS", "PARTS", "capital", "parameter_text"]

# of a Finding
LEVELS = {"void": "ERROR", "doubt": "WARNING", "note": "INFO"}

# of a step, by the name of the field without its unit
PARTS = {
    "step": "step",
    "compute": "compute",
    "input": "data wait",
    "optimizer": "optimizer",
    "straggle": "waiting for the slowest",
    "bubble": "pipeline bubble",
    "wire": "network",
    "hidden": "hidden communication",
    "exposed": "comm wait",
}

# of a Recommendation; the others speak for themselves
GOALS = {
    "knee": "best value",
    "pareto": "efficient choices",
    "energy": "least energy",
    "lr-rule": "learning rate",
    "next-measurement": "measure next",
}

_UNITS = ("_bytes_per_s", "_per_s", "_s", "_ratio", "_bytes")
_PARAMETERS = {"fixed": "fixed cost", "host dilation": "slowdown on a shared host"}


def capital(text: str) -> str:
    """As a sentence begins."""
    return text[:1].upper() + text[1:]


def parameter_text(name: str) -> str:
    """Of a cost model: `exchange_between_nodes_s` as `communication between nodes`."""
    for unit in _UNITS:
        name = name.removesuffix(unit)
    words = name.replace("_", " ")
    return _PARAMETERS.get(words, words.replace("exchange", "communication"))
