"""A look at one node of an allocation, as a line of JSON: `python -m paceline.launch.slurm_look HOST FOLDER SUBJECT`.

Started by srun on every node before the first trial, with the desk's own interpreter.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from paceline.launch.facts import Subject, facts_of_this_node
from paceline.launch.route import address_towards, way_at
from paceline.records_json import plain_data, record_from

__all__ = ["main"]


def main(argv: Sequence[str]) -> None:
    host, folder, subject = argv
    address = address_towards(host)
    facts = facts_of_this_node(
        record_from(Subject, json.loads(subject)),
        node=int(os.environ.get("SLURM_NODEID", "0")),
        way=way_at(address) if address else None,
    )
    given = os.environ.get("SLURM_CPUS_ON_NODE", "")
    cores = min(facts.cores, int(given)) if given.isdigit() else facts.cores
    facts = replace(facts, host=os.environ.get("SLURMD_NODENAME", facts.host), cores=cores)
    seen = {"facts": plain_data(facts), "sees_folder": os.path.isdir(folder), "unix_s": time.time()}
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
