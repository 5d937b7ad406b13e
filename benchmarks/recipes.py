"""How long does a recipe take on a laptop, and what does it say? Every recipe once, one after another.

    python benchmarks/recipes.py [--out DIR] [--only mnist,fruit] [--data steering=FOLDER …]

Each runs as a person would start it, `paceline recipe run NAME --json`, in a folder that is thrown away: wall seconds,
CPU seconds of it and all that it started, exit code, states of its trials, and every question with its answer, as a
line of raw.jsonl. The machine and its load before the first go to machine.json. A recipe is asked to end in 180 s
on two idle cores; on a busy machine CPU seconds say more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from paceline.store.recipe_file import recipe_names

ASKED_S = 180.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("evidence/recipes"))
    parser.add_argument("--only", default=",".join(recipe_names()))
    parser.add_argument("--data", action="append", default=[], metavar="NAME=FOLDER")
    args = parser.parse_args()
    data = dict(text.split("=", 1) for text in args.data)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "machine.json").write_text(json.dumps(machine(), indent=1) + "\n")
    lines = []
    for name in args.only.split(","):
        lines.append(repeated(name, data=data.get(name)))
        (args.out / "raw.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        told = lines[-1]
        print(f"{name:16} {told['wall_s']:6.1f} s wall {told['cpu_s']:6.1f} s CPU  exit {told['exit_code']}")
    late = [line["recipe"] for line in lines if line["exit_code"] or line["wall_s"] > ASKED_S]
    print(f"over {ASKED_S:.0f} s or failed: {', '.join(late) or 'none'}")


def repeated(name: str, *, data: str | None) -> dict[str, object]:
    """One recipe from its command to its answers."""
    command = [sys.executable, "-m", "paceline.cli.main", "recipe", "run", name, "--json"]
    command += ["--data", os.path.abspath(data)] if data else []
    environment = {key: value for key, value in os.environ.items() if key != "PACELINE_DATA"}
    load, used, began = os.getloadavg(), cpu_s(), perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        wall_s, used_s = perf_counter() - began, cpu_s() - used
    said = json.loads(done.stdout) if done.stdout.strip() else {}
    return {
        "recipe": name,
        "exit_code": done.returncode,
        "wall_s": wall_s,
        "cpu_s": used_s,
        "load_before": load,
        "points": {point["id"]: point["state"] for point in said.get("points", ())},
        "trials": said.get("source", {}).get("trials"),
        "verdict": said.get("verdict"),
        "answers": said.get("answers"),
        "findings": sorted({finding["id"] for finding in said.get("findings", ())}),
        "stderr_tail": done.stderr[-2000:] if done.returncode else "",
    }


def cpu_s() -> float:
    """CPU seconds of every process that was started here and has ended, with what those started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def machine() -> dict[str, object]:
    """What the times belong to."""
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    return {
        "platform": platform.platform(),
        "cpu": cpu.partition(": ")[2],
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": os.getloadavg(),
    }


if __name__ == "__main__":
    main()
