"""Workers that have imported torch already, which is most of what a small training costs.

For tests of what happens inside workers. How processes are started, found and ended is tested with processes that
start as a user's do.
"""

import atexit
import contextlib
import faulthandler
import multiprocessing
import os
import random
import socket
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

from paceline.launch.command import TORCHRUN, Command

_AGENT = ("-m", "paceline_agent")
_STACKS_S = 120.0  # after which a worker that has not ended writes where it stands


def warm_process(words, *, environment, directory, output):
    """`python WORDS` with this environment, in this folder, writing to this file: started by a fork."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch._dynamo"])
    process = context.Process(target=_become, args=(words, environment, str(directory), str(output)))
    process.start()
    return process


def run_ranks(size, *command, timeout_s=150, **environment):
    """One process per rank, as a launcher would start them; (exit code, output) of each."""
    own = {**os.environ, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in environment.items()}}
    words = tuple(map(str, command))
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder) / str(rank) for rank in range(size)]
        ranks = [
            warm_process(words, environment={**own, **told}, directory=os.getcwd(), output=output)
            for told, output in zip(told_to(size), outputs, strict=True)
        ]
        until = time.monotonic() + timeout_s
        for rank in ranks:
            rank.join(max(0.0, until - time.monotonic()))
        ended = [rank.exitcode for rank in ranks]
        for rank in ranks:
            rank.kill()
            rank.join()
        said = [output.read_text() for output in outputs]
        assert None not in ended, f"after {timeout_s} s: {list(zip(ended, said, strict=True))}"
        return list(zip(ended, said, strict=True))


class WarmLaunch:
    """Workers under way. As with torchrun, the first that fails ends the others."""

    def __init__(self, workers):
        self._workers = workers

    def exit_code(self):
        codes = [worker.exitcode for worker in self._workers]
        if any(codes):
            self.end()
            return next(filter(None, codes))
        return None if None in codes else 0

    def ask_stacks(self, pid):
        return False

    def end(self):
        for worker in self._workers:
            worker.kill()
            worker.join()


class WarmLauncher:
    """Starts `[torchrun …] -m paceline_agent …` on this machine by forks of a process that waits with torch."""

    def start(self, command: Command, output):
        at = command.argv.index(_AGENT[1]) - 1
        own, launcher = {**os.environ, **command.environment}, command.argv[1:at]
        told = [{}]
        if TORCHRUN in launcher:
            told = told_to(int(launcher[launcher.index("--nproc-per-node") + 1]))
        place = {"directory": command.directory, "output": output.name}
        return WarmLaunch(
            [warm_process(command.argv[at:], environment={**own, **each}, **place) for each in told]
        )

    def end_leftovers(self, study_tag):
        return 0


def told_to(count):
    """What torchrun tells each of its workers, on one node."""
    together = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "GROUP_RANK": "0"}
    together |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "TORCHELASTIC_RUN_ID": "warm"}
    return [{**together, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


def free_port():
    """A port that is free and stays so: the kernel gives none from this range to those who ask for any."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return str(port)
    raise OSError("no port between 20000 and 32000 is free")


def _become(words, environment, directory, output):
    """What an interpreter that starts here would be, to its last word: a fork skips what is done at exit."""
    import torch

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))  # torch had read the variable before the fork
    with open(output, "ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    faulthandler.dump_traceback_later(_STACKS_S, file=2)
    try:
        _run(
            words, searched=[entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
        )
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()


def _run(words, *, searched):
    sys.path[:] = ["", *searched, *(entry for entry in sys.path if entry not in searched)]
    sys.argv[:] = words
    if words[:2] != _AGENT:
        sys.path[0] = os.path.dirname(words[0])
        # a module that stays, as the interpreter has it: where its variables go before the process does, torch may wait
        # for a thread of gloo that waits for the interpreter's lock
        sys.modules["__main__"] = types.ModuleType("__main__")
        sys.modules["__main__"].__file__ = words[0]
        exec(compile(Path(words[0]).read_bytes(), words[0], "exec"), sys.modules["__main__"].__dict__)
        return
    for name in [name for name in sys.modules if name.partition(".")[0] == _AGENT[1]]:
        del sys.modules[name]  # the trial has a copy of its own
    _below_the_agent()
    from paceline_agent.__main__ import main

    agent = Path(sys.modules[_AGENT[1]].__file__)
    assert agent.is_relative_to(searched[0]), agent
    main(list(words[2:]))


def _below_the_agent():
    """What a test changes under the agent's feet: a network that is slower for all, a method that nobody watches, or a
    device that is not there."""
    slower, unwatched, device = (
        os.environ.get(f"PACELINE_TEST_{name}") for name in ("SLOW_WAIT_S", "UNWATCHED", "FAKE_CUDA")
    )
    if slower:
        from torch.distributed import Work

        original = Work.wait

        def wait(work, *args):
            result = original(work, *args)
            time.sleep(float(slower))  # afterwards: before it, the operation would go on meanwhile
            return result

        Work.wait = wait
    if device:
        _on_fake_device()
    if unwatched:
        from paceline_agent.enter import entry

        started = entry.start

        def start():
            agent = started()
            _unwatch(agent, unwatched)
            return agent

        entry.start = start


def _on_fake_device():
    """The agent takes every tensor for one on a device, and its clock for the only one."""
    from paceline_agent import agent
    from paceline_agent.enter import entry
    from paceline_agent.watch import communications, ddp
    from tests.support.fake_cuda import install

    fake = install()
    for module in (agent, communications, ddp):
        module.on_device = lambda tensor: True
    started = entry.start

    def start():
        running = started()
        fake.is_measuring = lambda: running.recorder.active
        return running

    entry.start = start


def _unwatch(agent, name):
    """Give torch back the method that the agent has replaced."""
    import torch
    from torch.distributed import ProcessGroup, Work

    owner, _, method = name.partition(".")
    if name == "logger":
        agent.ddp._read_logger = lambda ddp: False
    elif owner == "_c10d_functional":
        packet = getattr(torch.ops._c10d_functional, method)
        for operator in (packet, packet.default):
            operator._op = operator._op.original
    else:
        owner = {"ProcessGroup": ProcessGroup, "Work": Work, "Future": torch._C.Future}[owner]
        original = getattr(owner, method).__wrapped__
        setattr(owner, method, lambda called, *args, **kwargs: original(called, *args, **kwargs))
