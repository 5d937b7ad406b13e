"""The verbs of the command line, for Python. What goes wrong is a PacelineError with a message and a hint."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from paceline.analysis.question import Ask, Cluster
from paceline.analysis.table import table_analysis
from paceline.api.frames import table_text_of
from paceline.api.result import Result
from paceline.core.errors import UsageError
from paceline.core.units import count_range
from paceline.predict.whatif import change_from
from paceline.records import Analysis
from paceline.source.anything import analysis_at
from paceline.source.declared import ask_of, cluster_of, prices_of
from paceline.table.read import Times, read_table

__all__ = ["advise", "analyze", "load", "project", "study"]

Counts = int | str | Iterable[int]


def load(path: str | os.PathLike[str]) -> Result:
    """What a study folder, an analysis.json or a table says.

    >>> print(load("tests/recorded/mnist-1-2").verdict.answer)
    use
    """
    return Result(analysis_at(Path(path)), _name(path), path)


def analyze(
    table: object,
    *,
    time: Times | None = None,
    project: Counts | None = None,
    fit_up_to: int | None = None,
    cluster: str | os.PathLike[str] | None = None,
    price: str | None = None,
    deadline: str | None = None,
    budget: float | None = None,
) -> Result:
    """Speed-up, fit, predictions with intervals or refusals, findings and advice, from a table.

    The table is a path, a DataFrame (pandas or polars), rows as dicts, or text with line breaks.

    >>> found = analyze([{"gpus": 1, "epoch_s": 100}, {"gpus": 2, "epoch_s": 55}, {"gpus": 4, "epoch_s": 30}])
    >>> print(found)
    Use 4 GPUs: 3.33x faster than 1, 83% efficient (strong scaling).
    """
    machines = cluster_of(None if cluster is None else Path(cluster))
    prices = prices_of(price, deadline, budget, None, machines)
    ask = ask_of(fit_up_to, None if project is None else _counts(project), None, prices)
    return Result(_asked(table, ask, machines, time=time), _name(table), table)


def project(
    source: object,
    workers: Counts,
    *,
    cluster: str | os.PathLike[str] | None = None,
    probe: str | os.PathLike[str] | None = None,
    what_if: Iterable[str] = (),
    fit_up_to: int | None = None,
) -> Result:
    """What worker counts that were not measured would give: `projections`, or `refusals` with what would help.

    >>> table = [{"gpus": n, "epoch_s": 96 / n + 4} for n in (1, 2, 4, 8)]
    >>> one = project(table, 16).projections[0]
    >>> one.workers, one.time_s.low < one.time_s.value < one.time_s.high
    (16, True)
    """
    machines = cluster_of(None if cluster is None else Path(cluster))
    ask = ask_of(fit_up_to, _counts(workers), None, prices_of(None, None, None, None, machines))
    ask = replace(ask, change=change_from(list(what_if)))
    folder = None if probe is None else Path(probe)
    return Result(_asked(source, ask, machines, probe=folder), _name(source), source)


def advise(
    source: object,
    *,
    workers: Counts | None = None,
    cluster: str | os.PathLike[str] | None = None,
    price: str | None = None,
    deadline: str | None = None,
    budget: float | None = None,
) -> Result:
    """What to use for every goal, in `recommendations`: fastest, cheapest, best value, by a deadline or a budget.

    >>> table = [{"gpus": n, "epoch_s": 96 / n + 4} for n in (1, 2, 4, 8)]
    >>> {one.goal: one.workers for one in advise(table, workers=[8]).recommendations}["cheapest"]
    1
    """
    machines = cluster_of(None if cluster is None else Path(cluster))
    prices = prices_of(price, deadline, budget, None, machines)
    ask = ask_of(None, None if workers is None else _counts(workers), None, prices)
    return Result(_asked(source, ask, machines), _name(source), source)


def study(target: str | os.PathLike[str], *args: object, **options: object) -> Result:
    """Measure a training script at several worker counts, as `paceline study` does; progress goes to stderr.

    `args` are the script's own. `options` are those of the command line by their names, as Python values:

        paceline.study("train.py", "--batch-size", 32, workers=[1, 2, 4], repeats=3, vary={"--mode": ["a", "b"]})

    What is missing is run, so the same call goes on after an interruption.
    """
    # here: who only reads results needs no launcher
    from paceline.cli.gather import JOIN_WAIT_S
    from paceline.cli.measure import finish, run, say_why_it_stopped, terminated_like_interrupted
    from paceline.cli.options.asked import asked_study
    from paceline.cli.options.study import StudyOptions
    from paceline.cli.ready import ready
    from paceline.cli.verbs.study import prepared
    from paceline.store.study_file import read_study
    from paceline.store.trial_files import read_results

    known = {field.name: str(field.type) for field in fields(StudyOptions)}
    elsewhere = {"words", "help_all", "json", "dry_run", "emit", "on", "join", "join_wait"}
    for name in options:
        if name not in known or name in elsewhere:
            alike = get_close_matches(name, known.keys() - elsewhere, n=1)
            raise UsageError(
                f"study has no option {name!r} in Python",
                hint=f"{alike[0]}, perhaps" if alike else "paceline study --help-all lists them",
            )
    typed: dict[str, Any] = {name: _typed(value, known[name]) for name, value in options.items()}
    words = [os.fspath(target), *map(str, args)]
    folder, wanted = asked_study(StudyOptions(words=words, **typed))
    wanted, plan, bench = prepared(wanted)
    again, held = bool(typed.get("retry_failed")), read_results(folder)
    with (
        terminated_like_interrupted(),
        ready(
            folder, wanted, plan, bench, held=held, join=None, wait_s=JOIN_WAIT_S, retry_failed=again
        ) as bench,
    ):
        measured = run(folder, wanted, plan, held=held, bench=bench, retry_failed=again)
    if wanted.find_batch:
        wanted = read_study(folder.study_toml)  # with the batches that were tried
    found = Result(finish(folder, wanted, measured.results, json=None), folder.root.name, folder.root)
    say_why_it_stopped(folder, measured)
    return found


def _asked(
    source: object, ask: Ask, cluster: Cluster | None, *, time: Times | None = None, probe: Path | None = None
) -> Analysis:
    if isinstance(source, Result):
        return _asked(source.origin, ask, cluster, time=time, probe=probe)
    if (path := _path(source)) is not None:
        return analysis_at(path, ask=ask, cluster=cluster, time=time, probe=probe)
    if probe is not None:
        raise UsageError(
            "a probe belongs to a study or to a table in a file", hint="save the table, and name its path"
        )
    return table_analysis(read_table(table_text_of(source), time=time), ask=ask, cluster=cluster)


def _counts(asked: Counts) -> tuple[int, ...]:
    if isinstance(asked, str):
        return count_range(asked)
    return count_range(",".join(map(str, [asked] if isinstance(asked, int) else asked)))


def _typed(value: object, kind: str) -> object:
    """As it would have been typed, where the option is text: [1, 2] is 1,2 and {"--mode": ["a"]} is --mode=a."""
    if "list[str]" in kind:
        if isinstance(value, Mapping):
            return [f"{key}={_listed(each)}" for key, each in value.items()]
        return [value] if isinstance(value, str) else [str(each) for each in _each(value)]
    if "Path" in kind:
        return Path(str(value))
    return _listed(value) if "str" in kind and value is not None else value


def _listed(value: object) -> str:
    return value if isinstance(value, str) else ",".join(map(str, _each(value)))


def _each(value: object) -> Iterable[object]:
    return value if isinstance(value, Iterable) else (value,)


def _path(source: object) -> Path | None:
    """Text without a line break is a path, with one it is a table."""
    named = isinstance(source, os.PathLike) or (isinstance(source, str) and "\n" not in source)
    return Path(source) if named else None  # type: ignore[arg-type]  # text or a path, as was just seen


def _name(source: object) -> str:
    path = source.name if isinstance(source, Result) else _path(source)
    return path if isinstance(path, str) else "" if path is None else path.name
