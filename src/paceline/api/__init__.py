"""Paceline in Python: what `import paceline` offers, for notebooks and programs.

The command line is the other way to the same rooms. Results are records; nothing is printed but progress, to stderr.
"""

from paceline.api.result import Picture, Result
from paceline.api.verbs import advise, analyze, load, project, study

__all__ = ["Picture", "Result", "advise", "analyze", "load", "project", "study"]
