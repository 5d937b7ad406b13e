"""Run a training script as `python script.py` or `python -m module` would, with the agent watching.

python -m paceline_agent script.py args…
python -m paceline_agent -m package.module args…
"""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import traceback
import types
from typing import Any

from paceline_agent.agent import WORKER, Agent
from paceline_agent.enter import entry
from paceline_agent.guard import guarded
from paceline_agent.record import files, host

_LONGEST_TRACE = 8000
_ONEDNN = ("could not create a primitive", "could not create a memory", "std::bad_alloc")


def main(argv: list[str]) -> None:
    launcher = [word for word in argv[:1] if word.startswith("--local_rank")]  # deepspeed's, for the script
    argv = argv[len(launcher) :]
    as_module = argv[:1] == ["-m"]
    target = argv[1:] if as_module else argv
    if not target:
        sys.exit("usage: python -m paceline_agent [-m MODULE | SCRIPT] ARGS")
    with contextlib.suppress(Exception):
        host.die_with_parent(torchrun=True)
    agent = entry.start()
    if agent is not None:
        os.environ[WORKER] = str(os.getpid())
        guarded(agent.recorder, host.limit_memory)(agent.settings.memory_limit_bytes)
        _redirect_output(agent.settings.folder)
    sys.argv = [*target[:1], *launcher, *target[1:]]
    try:
        run = _run_module if as_module else _run_script
        run(target[0])
    except SystemExit as ending:
        if agent is not None:
            if ending.code is not None and not isinstance(ending.code, int):  # sys.exit("why")
                _write_exception(agent, ending)
            agent.script_ended("returned" if ending.code in (None, 0) else "exception")
        raise
    except BaseException as error:
        if agent is not None:
            _write_exception(agent, error)
            agent.script_ended("exception")
        raise
    if agent is not None:
        agent.script_ended("returned")


def _run_script(path: str) -> None:
    """As the interpreter does it: a real __main__ module that stays alive, the script's folder first on the path."""
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__, __spec__=None, __cached__=None)
    sys.modules["__main__"] = module
    _search_first(os.path.dirname(os.path.realpath(path)))  # of a link, the folder that it leads to
    exec(code, module.__dict__)


def _run_module(name: str) -> None:
    _search_first(os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _search_first(folder: str) -> None:
    """Put this folder where `python -m` has put the current one; with PYTHONSAFEPATH it has put none, nor do we."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


def _redirect_output(folder: str) -> None:
    """Each worker's output in a file of its own. If that cannot be opened, it stays where it was."""
    rank = os.environ.get("RANK", "main")
    with contextlib.suppress(OSError):
        log = os.open(os.path.join(folder, f"out-{rank}.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)


def _write_exception(agent: Agent, error: BaseException) -> None:
    said = os.environ.get("RANK") or "0"
    rank: Any = agent.rank if agent.rank is not None else int(said) if said.isdigit() else 0
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "paceline_agent" not in frame.filename
    ]
    where = next((frame for frame in reversed(frames) if "site-packages" not in frame.filename), None)
    with contextlib.suppress(Exception):
        files.write_json(
            agent.settings.folder,
            f"exit-{rank}.json",
            {
                "rank": rank,
                "type": type(error).__name__,
                "message": str(error)[:2000],
                "where": f"{where.filename}:{where.lineno}" if where else None,
                "traceback": _ends(
                    "".join(traceback.format_exception(type(error), error, error.__traceback__))
                ),
                "step": agent.recorder.k,
                "oom": is_out_of_memory(error, limited=agent.settings.memory_limit_bytes is not None),
            },
        )


def _ends(text: str) -> str:
    """Both ends of a long text: frames come first in a traceback, and a message may be a megabyte."""
    half = _LONGEST_TRACE // 2
    return text if len(text) <= _LONGEST_TRACE else f"{text[:half]}\n…\n{text[-half:]}"


def is_out_of_memory(error: BaseException, *, limited: bool = False) -> bool:
    """torch.OutOfMemoryError, a host MemoryError, or the plain RuntimeError of torch's CPU allocator.

    Where memory is limited on purpose, oneDNN's only word for it, too."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error)
    words = ["DefaultCPUAllocator: can't allocate memory", *(_ONEDNN if limited else ())]
    return isinstance(error, RuntimeError) and any(word in text for word in words)


if __name__ == "__main__":
    main(sys.argv[1:])
