"""One node of a trial that a scheduler starts on several: says what is this node's own, then becomes torchrun.

python on_node.py HOST FOLDER -- COMMAND…     find the way to HOST, then become the command
python on_node.py HOST FOLDER                 say the same as one line of JSON, and end

torchrun would tell workers to meet at the first node's host name, which others may not resolve, and gloo would take
the address of its own host name, which is often 127.0.0.1. So the address and the interface that lead to HOST are
given to both, unless the user has chosen: GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME win. Needs no file beside it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

TORCHRUN = "torch.distributed.run"
VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
_ADDRESS_OF = 0x8915  # SIOCGIFADDR


def main(argv: List[str]) -> None:
    host, folder, command = argv[0], argv[1], argv[3:]
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    try:
        address, interface = way_to(host)
    except OSError as problem:
        sys.exit(f"node {name} has no way to the first node, {host}: {problem.strerror or problem}")
    if not command:
        print(json.dumps(facts(name, folder, address, interface)), flush=True)  # short: srun cuts long lines
        return
    if not os.path.isdir(folder):
        sys.exit(
            f"node {name} does not see {folder}: the study must lie on a file system that all nodes share"
        )
    for variable in VARIABLES:
        if interface and not os.environ.get(variable):
            os.environ[variable] = interface
    os.environ["PACELINE_NODE"] = os.environ.get("SLURM_NODEID", "0")
    words = for_this_node(command, address, holds=os.environ.get("SLURM_NODEID", "0") == "0")
    try:
        os.execvp(words[0], words)
    except OSError as problem:
        sys.exit(f"node {name}: {words[0]}: {problem.strerror}")


def way_to(host: str) -> Tuple[str, Optional[str]]:
    """The address that this node sends from when it sends to `host`, and the interface that holds it."""
    family, _, _, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(target)  # a datagram socket: nothing is sent, the route is chosen
        address = probe.getsockname()[0]
    return address, interface_of(address)


def interface_of(address: str) -> Optional[str]:
    """The interface with this IPv4 address; None when none is known by it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asked.fileno(), _ADDRESS_OF, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # an interface without an address
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None


def for_this_node(command: List[str], address: str, *, holds: bool) -> List[str]:
    """The command; on several nodes torchrun is told this node's address and whether it holds the rendezvous."""
    nodes = command[command.index("--nnodes") + 1] if "--nnodes" in command else "1"
    if TORCHRUN not in command or nodes == "1":
        return command
    at = command.index(TORCHRUN) + 1
    return [*command[:at], "--local-addr", address, "--rdzv-conf", f"is_host={int(holds)}", *command[at:]]


def facts(name: str, folder: str, address: str, interface: Optional[str]) -> Dict[str, Any]:
    """What the desk wants to know of a node before the first trial."""
    return {
        "node": name,
        "sees_folder": os.path.isdir(folder),
        "address": address,
        "interface": interface,
        "chosen": {variable: os.environ.get(variable) for variable in VARIABLES},
        "cores": len(os.sched_getaffinity(0)),
        "unix_s": time.time(),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
