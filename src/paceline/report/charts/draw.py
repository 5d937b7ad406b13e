"""A specification -> a picture, by vl-convert: SVG, PNG, PDF, and the scripts that make charts on a page interactive.

vl-convert is an extra: without it there are no pictures, and everybody who asks for one is told how to get it.
"""

from __future__ import annotations

import re
from types import ModuleType

from paceline.core.errors import PacelineError
from paceline.report.document import Spec

__all__ = ["EXTRA", "can_draw", "pdf", "png", "scripts", "svg"]

EXTRA = "pip install 'paceline[report]'"
_SHARPNESS = 2.0  # pixels of a PNG per unit of the specification
_COUNTED = re.compile(r"\b(clip|gradient_)\d+")
_IDS = re.compile(r'(?P<before>\bid="|url\(#)(?P<name>[\w-]+)')


def can_draw() -> bool:
    """Whether vl-convert is installed and can be loaded here."""
    try:
        _converter()
    except PacelineError:
        return False
    return True


def svg(spec: Spec, *, prefix: str = "") -> str:
    """The picture as SVG; `prefix` keeps its inner ids apart from those of other pictures on the same page."""
    converter = _converter()
    try:
        text = str(converter.vegalite_to_svg(spec))
    except ValueError as problem:
        reason = str(problem).splitlines()[0]
        raise PacelineError(
            f"a picture cannot be drawn: {reason}", hint="the tables have its numbers"
        ) from None
    return _IDS.sub(rf"\g<before>{prefix}\g<name>", _renumbered(text)) if prefix else text


def _renumbered(text: str) -> str:
    """Inner ids counted from 1 in every picture: vl-convert counts on from one picture to the next."""
    names = dict.fromkeys(found[0] for found in _COUNTED.finditer(text))
    numbers = {name: i for i, name in enumerate(names, 1)}
    return _COUNTED.sub(lambda found: f"{found[1]}{numbers[found[0]]}", text)


def png(spec: Spec) -> bytes:
    """The picture as PNG on white, twice as sharp as its size asks for."""
    return bytes(_converter().vegalite_to_png(_on_white(spec), scale=_SHARPNESS))


def pdf(spec: Spec) -> bytes:
    """The picture as PDF, for LaTeX."""
    return bytes(_converter().vegalite_to_pdf(spec))


def scripts() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script that sets window.vegaEmbed; vl-convert keeps it once it is made."""
    return str(_converter().javascript_bundle(None))


def _on_white(spec: Spec) -> Spec:
    return {**spec, "background": "white"}


def _converter() -> ModuleType:
    try:
        import vl_convert  # here: an extra, and 88 MB
    except ModuleNotFoundError:
        raise PacelineError("pictures need vl-convert, which is not installed", hint=EXTRA) from None
    except ImportError as problem:
        raise PacelineError(
            f"vl-convert, which draws pictures, cannot be loaded: {problem}", hint=EXTRA
        ) from None
    return vl_convert
