"""Where the Python of the script finds a module, as one line of JSON: `python find_module.py pkg.train`.

    {"file": "/home/me/pkg/train.py", "package": "/home/me/pkg"}        package: the folder of its top package

Searched as `python -m pkg.train` would from the current folder; a package stands for its __main__. Nothing of it is
imported, so that nothing of it runs: each parent is found by the finders that an import would ask.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Optional


def find_module(name: str) -> dict[str, Optional[str]]:
    """The file of the module and the folder of its top package; None where it is not found, or has none."""
    search: Any = None
    top: Optional[str] = None
    spec: Any = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        spec = _spec(".".join(parts[:count]), search)
        if spec is None or (count < len(parts) and spec.submodule_search_locations is None):
            return {"file": None, "package": None}
        search = spec.submodule_search_locations
        if count == 1 and search is not None:
            top = next(iter(search), None)
    if search is not None:
        spec = _spec(f"{name}.__main__", search)
    file = spec.origin if spec is not None and spec.has_location else None
    return {"file": file, "package": top if file else None}


def _spec(name: str, search: Any) -> Any:
    for finder in sys.meta_path:
        ask = getattr(finder, "find_spec", None)
        spec = ask(name, search) if ask is not None else None
        if spec is not None:
            return spec
    return None


if __name__ == "__main__":
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.getcwd()  # not the folder of this file, whose modules must not hide the user's
    print(json.dumps(find_module(sys.argv[1])))
