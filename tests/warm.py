"""A launcher whose processes have imported torch already, which is most of what a small trial costs.

For tests of what happens inside workers. How processes are started, found and ended is tested with processes that
start as a user's do.
"""

import multiprocessing
import os
import socket
import sys
from pathlib import Path

from paceline.launch.command import TORCHRUN, Command

_AGENT = ("-m", "paceline_agent")


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

    def __init__(self):
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["torch", "torch._dynamo"])

    def start(self, command: Command, output):
        at = command.argv.index(_AGENT[1]) - 1
        own = {**os.environ, **command.environment}
        given = [{**own, **told} for told in told_by(command.argv[1:at])]
        asked = [(command.argv[at + 2 :], each, command.directory, output.name) for each in given]
        workers = [self._context.Process(target=_become, args=each) for each in asked]
        for worker in workers:
            worker.start()
        return WarmLaunch(workers)

    def end_leftovers(self, study_tag):
        return 0


def told_by(launcher):
    """What a launcher on one node tells each of its workers: torchrun much, no launcher nothing."""
    if TORCHRUN not in launcher:
        return [{}]
    count = int(launcher[launcher.index("--nproc-per-node") + 1])
    together = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "GROUP_RANK": "0"}
    together |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "TORCHELASTIC_RUN_ID": "warm"}
    return [{**together, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def _become(words, environment, directory, output):
    """What an interpreter that starts here would be: this environment, folder, path and output."""
    import torch

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    searched = environment["PYTHONPATH"].split(os.pathsep)
    sys.path[:] = ["", *searched, *(entry for entry in sys.path if entry not in searched)]
    torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))  # torch had read the variable before the fork
    with open(output, "ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    for name in [name for name in sys.modules if name.partition(".")[0] == _AGENT[1]]:
        del sys.modules[name]  # the trial has a copy of its own
    from paceline_agent.__main__ import main

    agent = Path(sys.modules[_AGENT[1]].__file__)
    assert agent.is_relative_to(searched[0]), agent
    main(list(words))
