"""What a laboratory is made with on this machine: kernels differ in what they have, and a reader should know.

rate    tbf or htb, as the first shaped host has it
delay   netem, or the userspace switch
share   cgroup v1 or v2
"""

from __future__ import annotations

from paceline.launch.cgroup import root_group
from paceline.testbed.blueprint import Lab
from paceline.testbed.network import uses_userspace_switch
from paceline.testbed.system import ask

__all__ = ["means"]


def means(lab: Lab) -> dict[str, str]:
    """The means of every property that this lab has, by name; empty for hosts that nothing holds back."""
    found: dict[str, str] = {}
    shaped = next((host for host in lab.hosts if host.bits_per_s is not None), None)
    if shaped is not None:
        shown = ask("tc", "-n", shaped.namespace, "qdisc", "show", "dev", "eth0", "root").stdout.split()
        found["rate"] = shown[1] if len(shown) > 1 else "nothing: the link is not shaped any more"
    if lab.delay_s > 0:
        found["delay"] = "a userspace switch" if uses_userspace_switch(lab) else "netem"
    root = root_group()
    if root is not None and any(host.cores is not None for host in lab.hosts):
        found["CPU share"] = f"cgroup v{root[1]}"
    return found
