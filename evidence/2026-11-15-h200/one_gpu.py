# Ran on commit 4e69a41 (2026-11-15)
"""Let several NCCL workers share one GPU: one_gpu.py SCRIPT ARGS, started by torchrun or by the agent.

NCCL refuses two workers that name the same host and the same device. Each worker therefore names a host of its own
(NCCL_HOSTID) and takes device 0; NCCL then goes through sockets, as it does between machines without a fast network.
What is computed and exchanged is real. How long it takes is not what two GPUs would take: kernels take turns.
"""

import os
import runpy
import sys

os.environ["NCCL_HOSTID"] = f"host-{os.environ.get('RANK', '0')}"
os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
os.environ["LOCAL_RANK"] = "0"

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
    runpy.run_path(sys.argv[0], run_name="__main__")
