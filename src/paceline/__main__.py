"""`paceline` and `python -m paceline`. Imports take a quarter of a second, in which Ctrl-C is no error either."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """The console entry point."""
    try:
        from paceline.cli.main import main as run

        run()
    except KeyboardInterrupt:  # before anything was begun, or a second time while the first is being answered
        sys.exit(130)


if __name__ == "__main__":
    main()
