"""What can go wrong, as one tree. Every error says what happened, then one thing to do.

PacelineError                  exit 1
├── UsageError                 exit 1   the command line or study.toml asks for something impossible
├── TableError                 exit 1   a measurement table cannot be understood: row, column, fix
├── StudyError                 exit 1   a study folder is damaged, foreign or in use
│   └── StudyInUse             exit 1   another desk holds the study
├── TokenRefused               exit 1   the other end of a connection did not prove that it holds the token
├── NothingMeasured            exit 2   nothing usable was measured, or it does not answer the question
├── ThresholdFailed            exit 3   a --fail-if condition held
└── Interrupted                exit 130 Ctrl-C; what was measured is kept
"""

__all__ = [
    "Interrupted",
    "NothingMeasured",
    "PacelineError",
    "StudyError",
    "StudyInUse",
    "TableError",
    "ThresholdFailed",
    "TokenRefused",
    "UsageError",
]


class PacelineError(Exception):
    """Something a user can act upon: `message` is what happened, `hint` one thing to do."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(PacelineError):
    """The request itself cannot be carried out."""


class TableError(PacelineError):
    """A measurement table cannot be understood."""


class StudyError(PacelineError):
    """A study folder cannot be read or written."""


class StudyInUse(StudyError):
    """Another desk is working on this study."""


class TokenRefused(PacelineError):
    """A desk or a node did not prove that it holds the token of the study."""


class NothingMeasured(PacelineError):
    """The study ended without one usable measurement, or with none that answers its question."""

    exit_code = 2


class ThresholdFailed(PacelineError):
    """A threshold that the user set does not hold."""

    exit_code = 3


class Interrupted(PacelineError):
    """The user stopped the study; everything measured so far is kept."""

    exit_code = 130
