# Ran on commit 50be499 (2026-11-16)
"""Does an exchange take longer while its hosts compute? The same all-reduce beside waiting and beside computing.

    python stall.py OUT.jsonl        as root; hosts with a share of a core each, links of 60 Mbit/s

Durations from the call to the moment when the exchange is done, on the first host; waiting and computing in turn.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from time import perf_counter

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "src")]
BYTES, MBIT, TURNS, CALLS = 720_000, 60, 6, 8


def worker(out: str) -> None:
    """All-reduces of one bucket, first waiting for them, then computing meanwhile, in turn."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    bucket, left = torch.zeros(BYTES // 4), torch.randn(192, 192)

    def duration_s(computing: bool) -> float:
        ended = []
        begun = perf_counter()
        work = dist.all_reduce(bucket, async_op=True)
        work.get_future().then(lambda _: ended.append(perf_counter()))
        while computing and not ended:
            left @ left
        work.wait()
        while not ended:
            time.sleep(0.0005)
        return ended[0] - begun

    found = {"waiting": [], "computing": []}
    for turn in range(TURNS + 1):
        for kind, seconds in found.items():
            dist.barrier()
            took = [duration_s(kind == "computing") for _ in range(CALLS)]
            seconds += took if turn else []
    if dist.get_rank() == 0:
        with open(out, "a") as file:
            file.write(json.dumps({"hosts": dist.get_world_size(), **found}) + "\n")
    dist.barrier()
    dist.destroy_process_group()


def hosts(count: int, cpu: str | None, out: Path) -> None:
    """The worker on so many hosts."""
    from paceline.lab.blueprint import lab_of
    from paceline.lab.launcher import inside
    from paceline.lab.owner import new_name, opened
    from paceline.launch.command import Command
    from paceline.launch.local import LocalLauncher

    with (
        tempfile.TemporaryDirectory() as folder,
        opened(lab_of(new_name(), hosts=count, cpu=cpu, link=f"{MBIT}mbit")) as lab,
        open(Path(folder) / "log.txt", "w+b") as log,
    ):
        started = []
        for rank, host in enumerate(lab.hosts):
            environment = {
                "RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": lab.hosts[0].address,
                "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", "PACELINE_TAG": lab.name,
            }  # fmt: skip
            argv = (sys.executable, str(Path(__file__).resolve()), "--worker", str(out.absolute()))
            command = Command(argv, os.getcwd(), environment, folder, lab.name)
            started.append(LocalLauncher().start(inside(host, command), log))
        while any(each.exit_code() is None for each in started):
            time.sleep(0.2)
        log.seek(0)
        print(log.read().decode()[-2000:], end="")
    row = {**json.loads(out.read_text().splitlines()[-1]), "cpu": cpu}
    lines = [*out.read_text().splitlines()[:-1], json.dumps(row)]
    out.write_text("\n".join(lines) + "\n")
    waiting, computing = median(row["waiting"]), median(row["computing"])
    print(f"{count} hosts, {cpu or 'a core'} each: {waiting * 1e3:.0f} ms waiting, {computing * 1e3:.0f} ms computing, "
          f"{computing / waiting - 1:+.0%}", flush=True)  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        worker(sys.argv[2])
    else:
        for count, cpu in ((8, "12.5%"), (4, "12.5%"), (4, "25%"), (2, "25%"), (2, "50%"), (2, None)):
            hosts(count, cpu, Path(sys.argv[1]))
