# Ran on commit 428b027 (2026-11-16)
"""What computing adds to an exchange, by its size: the same all-reduces beside waiting and beside computing.

    python hops.py OUT.jsonl         as root; hosts with a share of a core each, links of 60 Mbit/s
    python hops.py --table hops.jsonl

Durations from the call to the moment when the exchange is done, on the first host; waiting and computing in turn.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean, median
from time import perf_counter

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "src")]
SIZES, MBIT, TURNS, CALLS = (1024, 8192, 131_072, 720_000), 60, 4, 10
LABS = ((2, "12.5%"), (2, "25%"), (2, "50%"), (2, None), (4, "25%"), (8, "12.5%"))


def worker(out: str) -> None:
    """All-reduces of every size, first waiting for them, then computing meanwhile, in turn."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    left = torch.randn(192, 192)

    def duration_s(bucket: torch.Tensor, computing: bool) -> float:
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

    rows = []
    for size in SIZES:
        bucket = torch.zeros(size // 4)
        found = {"waiting": [], "computing": []}
        for turn in range(TURNS + 1):
            for kind, seconds in found.items():
                dist.barrier()
                took = [duration_s(bucket, kind == "computing") for _ in range(CALLS)]
                seconds += took if turn else []
        rows.append({"bytes": size, **found})
    if dist.get_rank() == 0:
        with open(out, "a") as file:
            file.write(json.dumps({"hosts": dist.get_world_size(), "rows": rows}) + "\n")
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
    *before, last = out.read_text().splitlines()
    out.write_text("\n".join([*before, json.dumps({**json.loads(last), "cpu": cpu})]) + "\n")


def table(rows: list[dict]) -> str:
    """Medians, and what a hop takes longer: by medians and by means."""
    lines = ["| hosts | share of a core | bytes | waiting | computing | longer per hop | by means |"]
    lines.append("|" + "---|" * 7)
    for row in rows:
        hops = 2 * (row["hosts"] - 1)
        for each in row["rows"]:
            middle = [median(each[kind]) * 1e3 for kind in ("waiting", "computing")]
            mean = [fmean(each[kind]) * 1e3 for kind in ("waiting", "computing")]
            longer = [(computing - waiting) / hops for waiting, computing in (middle, mean)]
            cells = [str(row["hosts"]), row["cpu"] or "a core", f"{each['bytes']:,}"]
            cells += [f"{value:.1f} ms" for value in (*middle, *longer)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        worker(sys.argv[2])
    else:
        if sys.argv[1] != "--table":
            for count, cpu in LABS:
                hosts(count, cpu, Path(sys.argv[1]))
        print(table([json.loads(line) for line in Path(sys.argv[-1]).read_text().splitlines()]))
