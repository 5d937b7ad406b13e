"""Before the first trial: what every node is -> Findings, each with its fix.

void    a trial would fail, or measure two different things: nothing is started
doubt   trials will run, and their figures may mean something else than they seem to
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from paceline.core.units import bytes_text, duration_text
from paceline.records import Finding, Study, worst_first

__all__ = ["Facts", "preflight_findings"]

SHM_BYTES = 256 * 2**20  # a container's default is 64 MiB, which data-loader workers and NCCL outgrow
SKEW_S = 1.0
THREADS = "OMP_NUM_THREADS"
# a node's own by nature: its identity, the names of its network devices, where its files lie; or set by the desk
_OWN_PER_NODE = ("NCCL_HOSTID", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "UCX_NET_DEVICES", THREADS)
_OWN_ENDINGS = ("_IFNAME", "_FILE", "_DIR", "_HOME", "_PATH")
# what helps where nodes come from Slurm, and nobody types `paceline join`
_ON_SLURM = {
    "python-unusable": "--python with a path that compute nodes see; --load-module or --prologue for what it needs",
    "torch-missing": "--python with a path that compute nodes see, the one you train with",
    "versions-differ": "--python on a file system that all nodes share, or --load-module with a version in its name",
    "script-missing": "keep the code on a file system that all nodes share",
    "script-differs": "keep the code on a file system that all nodes share",
    "code-differs": "keep the code on a file system that all nodes share",
    "settings-differ": "--prologue 'export NAME=VALUE' where the site itself does not set it on its nodes",
    "one-machine": "ask whoever runs this Slurm: several of its nodes are one machine",
    "mtu-differs": "ask whoever runs this Slurm for one MTU: large packets may be lost, and communication then hangs",
    "cores-differ": "--constraint asks for equal nodes, or read the figures as those of the slowest",
    "devices-differ": "--constraint, or --gres gpu:TYPE:COUNT, or mind that the slowest sets the pace",
    "device-shared": "--gres gpu:COUNT with a device for every worker of a node, or fewer --workers-per-node",
    "shm-small": "--sbatch-option mem=… where /dev/shm counts as memory, or clear /dev/shm on that node",
    "clock-skew": "tell whoever runs this Slurm: chrony or ntpd does not run on that node",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What one node is, as far as it could be seen. None: not looked at, or not to be had there."""

    node: int
    host: str
    machine: str | None = None  # the same for two nodes on one machine
    address: str | None = None
    interface: str | None = None
    mtu_bytes: int | None = None
    paceline: str | None = None
    python: str | None = None
    torch: str | None = None
    nccl: bool | None = None
    devices: tuple[str, ...] | None = None  # names of the CUDA devices that a worker sees
    cores: int = 1
    shm_free_bytes: int | None = None
    script: str | None = None  # where it was looked for
    script_sha256: str | None = None  # None: not there
    beside: tuple[tuple[str, str], ...] = ()  # the Python files beside the script, and their digests
    environment: tuple[tuple[str, str], ...] = ()
    skew_s: float | None = None  # its clock minus the desk's
    skew_error_s: float | None = None
    unreachable: tuple[int, ...] = ()  # nodes whose ports it cannot reach
    seen_as: str | None = None  # the address that others find it at, where that is not its own
    desk_at: str | None = None  # the desk's address on the way to it
    problem: str | None = None  # why its Python could not be looked at


def preflight_findings(study: Study, nodes: Sequence[Facts]) -> tuple[Finding, ...]:
    """Everything that a look at the nodes says about the trials to come, void first."""
    found = [
        *_torch(nodes),
        *_script(study, nodes),
        *_reach(nodes),
        *_cores(study, nodes),
        *_devices(study, nodes),
        *_shared_memory(nodes),
        *_settings(nodes),
        *_threads_set(study, nodes),
        *_clocks(nodes),
    ]
    if study.slurm is not None:
        found = [replace(finding, hint=_ON_SLURM.get(finding.id, finding.hint)) for finding in found]
    return worst_first(found)


def name_of(facts: Facts) -> str:
    """node 1 (gpu07)"""
    return f"node {facts.node} ({facts.host})"


def _torch(nodes: Sequence[Facts]) -> Iterator[Finding]:
    for facts in nodes:
        if facts.problem is not None:
            yield Finding(
                "python-unusable",
                "void",
                f"{name_of(facts)}: {facts.problem}",
                hint=_python_hint(facts),
            )
        elif facts.torch is None:
            yield Finding(
                "torch-missing",
                "void",
                f"{name_of(facts)} has no torch in the Python that would run the script",
                hint=_python_hint(facts),
            )
    for kind, values in (
        ("torch", {facts.node: facts.torch for facts in nodes if facts.torch}),
        ("python", {facts.node: _minor(facts.python) for facts in nodes if facts.python}),
    ):
        if len(set(values.values())) > 1:
            shown = _each(nodes, lambda f, seen=values: seen.get(f.node))
            yield Finding(
                "versions-differ",
                "void",
                f"the nodes have different versions of {kind}: {shown}",
                hint=f"install one version of {kind} on every node, or name the right Python: paceline join … --python",
            )


def _python_hint(facts: Facts) -> str:
    if facts.node:
        return "paceline join … --python /path/to/env/bin/python on that node"
    return "--python /path/to/env/bin/python, the one you train with"


def _script(study: Study, nodes: Sequence[Facts]) -> Iterator[Finding]:
    what = study.workload.kind
    if what == "workload" or len(nodes) == 1:  # ours is sent; alone, a missing script is how every trial ends
        return
    for facts in nodes:
        if facts.script is not None and facts.script_sha256 is None and facts.problem is None:
            yield Finding(
                "script-missing",
                "void",
                f"{name_of(facts)} has no {'file' if what == 'script' else what} {facts.script}",
                hint="copy it to the same path, or paceline join in its folder, or say where that is: --script FOLDER"
                if facts.node
                else f"name an existing {what}",
            )
    if len({facts.script_sha256 for facts in nodes if facts.script_sha256}) > 1:
        shown = _each(nodes, lambda f: f.script_sha256 and f.script_sha256[:12])
        yield Finding(
            "script-differs",
            "void",
            f"the {what} is not the same on every node: {shown}",
            hint=f"copy the desk's {what} to every node",
        )
    desk = dict(nodes[0].beside)
    for facts in nodes[1:]:
        other = dict(facts.beside)
        apart = sorted(name for name in desk.keys() | other.keys() if desk.get(name) != other.get(name))
        if apart and facts.script_sha256 is not None:
            yield Finding(
                "code-differs",
                "doubt",
                f"{len(apart)} Python files beside the {what} are not those of the desk on {name_of(facts)}: "
                f"{', '.join(apart[:3])}{', …' if len(apart) > 3 else ''}",
                value=float(len(apart)),
                threshold=0.0,
                hint=f"copy the {what}'s folder to every node, if the {what} imports them",
            )


def _reach(nodes: Sequence[Facts]) -> Iterator[Finding]:
    for facts in nodes:
        if facts.seen_as is not None:
            yield Finding(
                "address-translated",
                "void",
                f"{name_of(facts)} has the address {facts.address}, and others find it at {facts.seen_as}. Addresses "
                "are translated on the way (NAT), so workers cannot meet",
                hint="give the nodes one network (a VPN; for a container --network host), and --join @ADDRESS in it",
            )
    for facts in nodes:
        for other in nodes:
            if other.node in facts.unreachable:
                yield Finding(
                    "port-unreachable",
                    "void",
                    f"{name_of(facts)} cannot reach a port that {name_of(other)} opened at {other.address}",
                    hint="let the nodes talk to each other on all ports (torch chooses them), or join over another "
                    "network: --join @ADDRESS",
                )
    ways = {facts.desk_at for facts in nodes if facts.desk_at}
    if len(ways) > 1:
        yield Finding(
            "networks-differ",
            "doubt",
            f"the nodes reach the desk at different addresses ({_each(nodes, lambda f: f.desk_at)}): their traffic "
            "goes over different networks",
            value=float(len(ways)),
            threshold=1.0,
            hint="let all join over one network: --join @ADDRESS",
        )
    sizes = {facts.mtu_bytes for facts in nodes if facts.mtu_bytes}
    if len(sizes) > 1:
        yield Finding(
            "mtu-differs",
            "doubt",
            f"the interfaces have different packet sizes: {_each(nodes, lambda f: f.mtu_bytes)}",
            value=float(min(sizes)),
            threshold=float(max(sizes)),
            hint="set one MTU on every node: large packets may be lost on the way, and communication then hangs",
        )
    machines = [facts.machine for facts in nodes if facts.machine]
    if len(set(machines)) < len(machines):
        yield Finding(
            "one-machine",
            "doubt",
            f"{len(machines)} nodes are {len(set(machines))} machine{'s' if len(set(machines)) > 1 else ''}: they "
            "share its cores and memory, and their communication may not leave it",
            value=float(len(set(machines))),
            threshold=float(len(machines)),
            hint="join from another machine",
        )


def _cores(study: Study, nodes: Sequence[Facts]) -> Iterator[Finding]:
    workers = max(study.workers_per_node or study.workers)
    threads = study.threads or 1
    on_device = all(facts.devices for facts in nodes)
    for facts in nodes:
        if workers * threads > facts.cores and not on_device:
            yield Finding(
                "cores-too-few",
                "doubt",
                f"{name_of(facts)}: {_who(workers, threads)} (OMP_NUM_THREADS) share "
                f"{facts.cores} core{'' if facts.cores == 1 else 's'}, so they slow each other down",
                value=float(workers * threads),
                threshold=float(facts.cores),
                hint=_room(study, workers, facts.cores),
            )
    if len({facts.cores for facts in nodes}) > 1:
        yield Finding(
            "cores-differ",
            "doubt",
            f"the nodes have different numbers of cores: {_each(nodes, lambda f: f.cores)}; the slowest sets the pace",
            value=float(min(facts.cores for facts in nodes)),
            threshold=float(max(facts.cores for facts in nodes)),
            hint="study equal nodes, or read the figures as those of the slowest",
        )


def _room(study: Study, workers: int, cores: int) -> str:
    """What gives every thread a core: fewer threads where they suffice, else fewer workers."""
    each, where = cores // workers, " per node" if study.workers_per_node else ""
    more = " or more CPUs of the node: Slurm's --cpus-per-task" if study.slurm is not None else ""
    if each:
        fewer = f" or fewer workers{where}" if workers > 1 else ""
        return f"--threads {each}" + ",".join(["", *filter(None, (fewer, more))])
    alone = " with --threads 1" if (study.threads or 1) > 1 else "; they have one thread each already"
    return f"at most {cores} worker{'' if cores == 1 else 's'}{where}{alone},{more or ' or more cores'}"


def _devices(study: Study, nodes: Sequence[Facts]) -> Iterator[Finding]:
    workers = max(study.workers_per_node or study.workers)
    for facts in nodes:
        if facts.devices and workers > len(facts.devices):
            yield Finding(
                "device-shared",
                "doubt",
                f"{name_of(facts)}: {workers} workers on {len(facts.devices)} CUDA "
                f"device{'s' if len(facts.devices) > 1 else ''}: two workers on one device take turns",
                value=float(workers),
                threshold=float(len(facts.devices)),
                hint=f"at most {len(facts.devices)} workers per node, or more devices in CUDA_VISIBLE_DEVICES",
            )
    kinds = {facts.node: ", ".join(sorted(set(facts.devices))) for facts in nodes if facts.devices}
    if len(set(kinds.values())) > 1:
        yield Finding(
            "devices-differ",
            "doubt",
            f"the nodes have different devices: {_each(nodes, lambda f: kinds.get(f.node))}; the slowest sets the pace",
            hint="study equal nodes, or read the figures as those of the slowest",
        )


def _shared_memory(nodes: Sequence[Facts]) -> Iterator[Finding]:
    for facts in nodes:
        if facts.shm_free_bytes is not None and facts.shm_free_bytes < SHM_BYTES:
            yield Finding(
                "shm-small",
                "doubt",
                f"{name_of(facts)} has {bytes_text(facts.shm_free_bytes)} free in /dev/shm: data-loader workers and "
                "NCCL fail when it is full",
                value=float(facts.shm_free_bytes),
                threshold=float(SHM_BYTES),
                hint="start the container with --shm-size 8g (or --ipc=host), or clear /dev/shm",
            )


def _settings(nodes: Sequence[Facts]) -> Iterator[Finding]:
    desk = _compared(nodes[0])
    for facts in nodes[1:]:
        other = _compared(facts)
        apart = sorted(name for name in desk.keys() | other.keys() if desk.get(name) != other.get(name))
        if apart:
            first = apart[0]
            yield Finding(
                "settings-differ",
                "doubt",
                f"{', '.join(apart)} differ{'s' if len(apart) == 1 else ''} between the desk and {name_of(facts)}: "
                f"{first} is {desk.get(first, 'not set')} here and {other.get(first, 'not set')} there",
                hint=f"export the same {first} on every node before paceline join",
            )
        if facts.paceline and nodes[0].paceline and facts.paceline != nodes[0].paceline:
            yield Finding(
                "paceline-differs",
                "note",
                f"the desk is Paceline {nodes[0].paceline}, {name_of(facts)} is {facts.paceline}; "
                "the desk's own agent measures on both",
            )


def _threads_set(study: Study, nodes: Sequence[Facts]) -> Iterator[Finding]:
    for facts in nodes:
        own = dict(facts.environment).get(THREADS)
        if own is not None and study.threads is not None and own != str(study.threads):
            yield Finding(
                "threads-set",
                "note",
                f"{THREADS}={own} of {name_of(facts)} is not used: every worker has {study.threads}, on every node",
                hint=f"--threads {own} gives every worker that many" if own.strip("0").isdigit() else None,
            )


def _clocks(nodes: Sequence[Facts]) -> Iterator[Finding]:
    for facts in nodes:
        if facts.skew_s is not None and abs(facts.skew_s) - (facts.skew_error_s or 0.0) > SKEW_S:
            ahead = "ahead of" if facts.skew_s > 0 else "behind"
            yield Finding(
                "clock-skew",
                "doubt",
                f"the clock of {name_of(facts)} is {duration_text(abs(facts.skew_s))} {ahead} the desk's. Their logs "
                "cannot be compared by time; step times stay right, each node uses its own clock",
                value=abs(facts.skew_s),
                threshold=SKEW_S,
                hint="start chrony or ntpd on that node",
            )


def _compared(facts: Facts) -> dict[str, str]:
    """The variables that should be the same on every node."""
    own = [name for name, _ in facts.environment if name in _OWN_PER_NODE or name.endswith(_OWN_ENDINGS)]
    return {name: value for name, value in facts.environment if name not in own}


def _each(nodes: Sequence[Facts], value: object) -> str:
    assert callable(value)
    return ", ".join(f"{shown} on {name_of(f)}" for f in nodes if (shown := value(f)) is not None)


def _who(workers: int, threads: int) -> str:
    count = f"{threads} thread{'' if threads == 1 else 's'}"
    return f"up to {workers} workers with {count} each" if workers > 1 else f"a worker's {count}"


def _minor(version: str | None) -> str | None:
    """3.11 of 3.11.4: what two interpreters must share."""
    return None if version is None else ".".join(version.split(".")[:2])
