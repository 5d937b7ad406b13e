"""`paceline serve`: the reports of a folder of studies, live, for a browser."""

from __future__ import annotations

import secrets
import socket
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from paceline import __version__
from paceline.cli.measure import terminated_like_interrupted
from paceline.core.errors import PacelineError, StudyError, UsageError
from paceline.records import Analysis, Finding, Reason, TrialResult, Verdict
from paceline.report.charts import draw
from paceline.report.page import page
from paceline.serve.folders import confined, studies_under
from paceline.serve.standing import is_running
from paceline.source.anything import read_analysis
from paceline.source.study import analysis_of_folder
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study
from paceline.store.trial_files import read_result

__all__ = ["fresh_page", "kept_page", "serve"]

EXTRA = "pip install 'paceline[serve]'"
_NEEDS = ("starlette", "uvicorn", "sse_starlette")
_LOCAL = "127.0.0.1"
_MOST_SAMPLES = 3_000_000  # kept in memory between two looks at a study; beyond that trials are read again


def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="STUDY|FOLDER", help="A study, or a folder with studies.")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 0,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = _LOCAL,
) -> None:
    """Show reports live in a browser: while a study runs its page follows it. Ctrl-C ends it.

    paceline serve STUDY
    """
    missing = [name for name in _NEEDS if find_spec(name) is None]
    if missing:
        raise PacelineError(f"a live report needs {', '.join(missing)}, which is not installed", hint=EXTRA)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="name a study, or a folder with studies")
    import uvicorn  # here, with the next two: an extra

    from paceline.serve.app import live_app
    from paceline.serve.pages import Renderers

    token = secrets.token_urlsafe(24)
    listening = _listening(host, port)
    taken = listening.getsockname()[1]
    app = live_app(folder, token=token, renderers=Renderers(kept_page, fresh_page, prepare))
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=4
    )
    print(_greeting(folder, host, taken, token), flush=True)
    try:
        with terminated_like_interrupted():  # else what the renderers share would be left, with a warning
            uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        print("Ended.", file=sys.stderr)


def prepare() -> None:
    """Import the renderer, and bundle the scripts of a page: seconds that nobody should wait for."""
    if draw.can_draw():
        draw.scripts()


def kept_page(root: Path, study: Path) -> str | None:
    """The page of the analysis that the study wrote last; None where there is none that can be read."""
    if not confined(study / "analysis.json", root):
        return None
    try:
        return page([("", read_analysis(study / "analysis.json"))], so_far=is_running(study))
    except StudyError:
        return None


def fresh_page(root: Path, study: Path) -> str:
    """The page of what the trials say now. A folder that is half written gives what there is, and says the rest."""
    try:
        analysis = _fresh(root, study)
    except PacelineError as problem:
        hint = f" {problem.hint}." if problem.hint else ""
        nothing = Reason("nothing-measured", f"Nothing can be shown yet: {problem.message}.{hint}")
        analysis = Analysis(Verdict("no_answer", reasons=(nothing,)), (), ())
    return page([("", analysis)], so_far=is_running(study))


def _fresh(root: Path, study: Path) -> Analysis:
    folder = StudyFolder(study)
    if not confined(folder.study_toml, root):
        if confined(folder.analysis_json, root):
            return read_analysis(folder.analysis_json)
        raise StudyError(f"{study.name} has no study.toml")
    asked = read_study(folder.study_toml)
    if _is_current(root, folder):
        return read_analysis(folder.analysis_json)
    results, unread = _TRIALS.results(root, folder)
    doubts = [
        Finding("trial-unreadable", "doubt", f"run {name} cannot be read and is left out") for name in unread
    ]
    return analysis_of_folder(folder, asked, results=results, said=doubts)


def _is_current(root: Path, folder: StudyFolder) -> bool:
    """Whether the analysis on disk is of this Paceline and later than everything it is derived from."""
    if not confined(folder.analysis_json, root):
        return False
    written = folder.analysis_json.stat().st_mtime_ns
    sources = [folder.study_toml, *folder.trials.glob("*/trial.json")]
    if any(path.stat().st_mtime_ns > written for path in sources):
        return False
    try:
        analysis = read_analysis(folder.analysis_json)
    except StudyError:  # of an older Paceline: what it was made from is here
        return False
    made_by, trials = analysis.source.get("paceline"), analysis.source.get("trials")
    return (made_by, trials) == (__version__, len(sources) - 1)


@dataclass(slots=True)
class _Trials:
    """What complete trials said, kept from one look to the next: only new ones are read."""

    known: dict[Path, tuple[tuple[int, int], TrialResult]] = field(default_factory=dict)
    samples: int = 0

    def results(self, root: Path, folder: StudyFolder) -> tuple[tuple[TrialResult, ...], tuple[str, ...]]:
        """Every complete trial in the order of starting, and the names of those that cannot be read."""
        found: list[TrialResult] = []
        unread: list[str] = []
        for trial in sorted(folder.trials.iterdir()) if confined(folder.trials, root) else []:
            try:
                state = (trial / "trial.json").stat()
            except OSError:
                continue
            try:
                found.append(self._one(root, trial, (state.st_mtime_ns, state.st_size)))
            except StudyError:
                unread.append(trial.name)
        return tuple(sorted(found, key=lambda result: result.started or "")), tuple(unread)

    def _one(self, root: Path, trial: Path, key: tuple[int, int]) -> TrialResult:
        known = self.known.get(trial)
        if known is not None and known[0] == key:
            return known[1]
        if not all(confined(entry, root) for entry in (trial, *trial.iterdir()) if entry.is_symlink()):
            raise StudyError(f"{trial} leads out of the folder that is served")
        result = read_result(trial)
        samples = sum(len(worker.samples) for worker in result.workers)
        if self.samples + samples < _MOST_SAMPLES:
            self.known[trial] = (key, result)
            self.samples += samples
        return result


_TRIALS = _Trials()  # of the rendering process


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen()  # before its address is said, so that nobody comes too early
    except OSError as problem:
        raise UsageError(
            f"cannot listen at {host} port {port}: {problem.strerror}", hint="choose another --port"
        ) from None
    return opened


def _greeting(folder: Path, host: str, port: int, token: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    studies = len(studies_under(folder))
    lines = [
        f"{studies} {'study' if studies == 1 else 'studies'} under {folder}, live at:",
        f"  http://{shown}:{port}/{token}/",
    ]
    if host == _LOCAL:
        lines += [
            "From another machine, first there:",
            f"  ssh -L {port}:{_LOCAL}:{port} {socket.gethostname()}",
        ]
    else:
        lines += ["Whoever has this address can read these reports; it is not encrypted."]
    return "\n".join([*lines, "Ctrl-C ends it."])
