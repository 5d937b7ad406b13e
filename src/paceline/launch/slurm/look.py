"""A look at one node of an allocation: `python -m paceline.launch.slurm.look HOST FOLDER SUBJECT`.

Started by srun on every node before the first trial, with the desk's own interpreter. srun mixes what tasks print,
line by line as long as lines are short: so an answer is cut into short lines, and put together again by `answers`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.core.json_data import plain_data, record_from
from paceline.launch.facts import Subject, facts_of_this_node
from paceline.launch.nodes.route import address_towards, way_at

__all__ = ["answers", "main", "short_lines"]

_MARK = "paceline-look"
_PIECE = 400


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
    print("\n".join(short_lines(facts.node, seen)), flush=True)


def short_lines(node: int, seen: Mapping[str, object]) -> list[str]:
    """What a node says, in lines that nobody cuts: its number, the whole length, the place of a piece, the piece."""
    text = base64.b64encode(json.dumps(seen).encode()).decode()
    places = range(0, len(text), _PIECE)
    return [f"{_MARK} {node} {len(text)} {at} {text[at : at + _PIECE]}" for at in places]


def answers(printed: str) -> list[dict[str, object]]:
    """What every node said, from the mixed lines of all; a node whose lines are not complete is left out."""
    pieces: dict[tuple[int, int], dict[int, str]] = {}
    for node, length, at, piece in re.findall(rf"(?m)^{_MARK} (\d+) (\d+) (\d+) (\S+)$", printed):
        pieces.setdefault((int(node), int(length)), {})[int(at)] = piece
    texts = {key: "".join(own[at] for at in sorted(own)) for key, own in pieces.items()}
    whole = [text for (_, length), text in texts.items() if len(text) == length]
    return [json.loads(base64.b64decode(text)) for text in whole]


if __name__ == "__main__":
    main(sys.argv[1:])
