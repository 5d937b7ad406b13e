# Ran on commit 9cc66ef (2026-11-15)
"""Does a probe give back the rate of a link that is known? Hosts in network namespaces, links shaped by tbf.

sudo python evidence/2026-11-15-probe/check.py [RESULT.json]

A shaped link counts whole Ethernet frames: 1448 of every 1514 bytes are payload, so 100 Mbit/s carry 11.96 MB/s of
gradients. Every row is one launch of real workers (torchrun, gloo), one per host.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from paceline.lab.blueprint import lab_of
from paceline.lab.launcher import LabLauncher, rendezvous_in
from paceline.lab.owner import new_name, opened
from paceline.launch.interpreter import package_folder
from paceline.links_probe import link_from_probe
from paceline.probe import sweep_sizes
from paceline.records_json import plain_data
from paceline.run.clock import SystemClock
from paceline.run.probe import ProbeBench, ProbeOrder, run_probe

CASES = ((50, 2), (100, 2), (200, 2), (500, 2), (200, 4))
PAYLOAD = 1448 / 1514
SECONDS = 12.0


def main(result: Path) -> None:
    rows, raw = [], ["link_mbit_per_s,hosts,op,size_bytes,repeat,seconds"]
    for megabits, hosts in CASES:
        lab = lab_of(new_name(), hosts=hosts, link=f"{megabits}mbit")
        with tempfile.TemporaryDirectory() as folder, opened(lab):
            bench = ProbeBench(
                LabLauncher(lab),
                sys.executable,
                package_folder("paceline_agent"),
                SystemClock(),
                "evidence:",
                rendezvous_in(lab),
            )
            order = ProbeOrder(hosts, sweep_sizes(8_000_000), nodes=hosts, seconds=SECONDS, device=False)
            probe = run_probe(Path(folder), order, bench=bench)
        link = link_from_probe([time for time in probe.times if time.op == "all_reduce"])
        expected = megabits * 1e6 / 8 * PAYLOAD
        error = link.bytes_per_s.value / expected - 1.0
        raw += [f"{megabits},{hosts},{t.op},{t.size_bytes},{t.repeat},{t.seconds:.9f}" for t in probe.times]
        rows.append(
            {
                "link_mbit_per_s": megabits,
                "hosts": hosts,
                "expected_bytes_per_s": expected,
                "error_ratio": error,
                "load_average": os.getloadavg()[0],
                "notes": list(probe.notes),
                "link": plain_data(link),
            }
        )
        print(
            f"{megabits} Mbit/s, {hosts} hosts: {link.bytes_per_s.value / 1e6:.2f} MB/s, {error:+.1%}",
            flush=True,
        )
    data = {"cores": os.cpu_count(), "rows": rows}
    result.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    result.with_name("raw.csv").write_text("\n".join(raw) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("result.json"))
