"""What is asked: a Study from text and flags, checked, and joined with what its folder already holds.

joined(held, asked)   counts and values are united, limits are replaced,
                      whatever would make old and new trials incomparable is refused
placed(study)         where nodes are asked for: workers = nodes × workers per node
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.core.errors import UsageError
from paceline.plan.config_files import checked_use
from paceline.records import Goal, Scaling, Study, Workload

__all__ = [
    "PLACEHOLDERS",
    "backends",
    "checked",
    "joined",
    "numbers",
    "placed",
    "places",
    "refuse_both_counts",
    "scalings",
    "vary",
    "with_args_batch",
]

PLACEHOLDERS = ("{per_worker_batch}", "{global_batch}", "{workers}", "{lr}", "{seed}")
BATCH_FLAGS = ("--batch-size", "--batch_size", "--batchsize", "--batch", "--bs", "-b")

_UNITED = ("workers", "nodes", "workers_per_node", "per_worker_batch", "global_batch", "backends", "scaling")
_REPLACED = (
    "repeats",
    "tight_ratio",
    "timeout_s",
    "hang_s",
    "budget_device_s",
    "keep_going",
    "flops",
    "try_anyway",
    "find_batch",
)
_FIXED = ("steps", "warmup", "threads", "python", "lr", "memory_limit_bytes")
_FLAGS = {
    "workers": "--workers",
    "nodes": "--nodes",
    "workers_per_node": "--workers-per-node",
    "per_worker_batch": "--per-worker-batch",
    "global_batch": "--global-batch",
    "backends": "--backend",
    "scaling": "--scaling",
}


def scalings(text: str) -> tuple[Scaling, ...]:
    """`weak`, `strong` or `both`."""
    match text.strip().lower():
        case "weak":
            return ("weak",)
        case "strong":
            return ("strong",)
        case "both":
            return ("weak", "strong")
    raise UsageError(f"scaling {text!r} is not known", hint="--scaling weak, strong or both")


def numbers(text: str, *, flag: str) -> tuple[int, ...]:
    """Positive whole numbers `32,64`, sorted, no repeats."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise UsageError(f"{flag} {text!r} is not a list of positive whole numbers", hint=f"{flag} 32,64")
    return tuple(sorted({int(part) for part in parts}))


def backends(text: str) -> tuple[str, ...]:
    """`gloo,nccl`, in the order given, no repeats."""
    names = [part.strip().lower() for part in text.split(",")]
    if not all(name and name.replace(":", "").replace("_", "").isalnum() for name in names):
        raise UsageError(f"--backend {text!r} is not a list of backends", hint="--backend gloo,nccl")
    return tuple(dict.fromkeys(names))


def vary(text: str) -> tuple[str, tuple[str, ...]]:
    """`batch-size=32,64` as the flag it sets (`--batch-size`) and its values."""
    key, sign, values = text.partition("=")
    key = key.strip()
    if not sign or not key.lstrip("-") or not values:
        raise UsageError(f"--vary {text!r} is not KEY=V1,V2", hint="--vary batch-size=32,64")
    flag = key if key.startswith("-") else ("-" if len(key) == 1 else "--") + key
    return flag, tuple(dict.fromkeys(values.split(",")))


def with_args_batch(study: Study) -> Study:
    """The study with the batch that its script args already name, where the question needs to know it.

    `train.py -- --batch-size 64` with strong scaling asks for a global batch of 64: what the script would
    use on the fewest workers. The flag itself is found among the args when it has a usual name.
    """
    needs = "strong" in study.scaling or study.per_worker_batch or study.global_batch
    flag = study.workload.batch_flag
    if flag is None and needs and not _names_batch(study.workload.args):
        flag = next((known for known in BATCH_FLAGS if flag_value(study.workload.args, known)), None)
        study = replace(study, workload=replace(study.workload, batch_flag=flag))
    given = flag_value(study.workload.args, flag) if flag else None
    if "strong" in study.scaling and not study.per_worker_batch and not study.global_batch:
        if given is None or not given.isdigit() or int(given) < 1:
            raise UsageError(
                "strong scaling divides a global batch among the workers, and none is given",
                hint="add --global-batch 256 --batch-flag --batch-size (the script's own flag)",
            )
        if len(study.scaling) == 1:
            return replace(study, global_batch=(int(given) * min(study.workers),))
        return replace(study, per_worker_batch=(int(given),))
    return study


def flag_value(args: Sequence[str], flag: str) -> str | None:
    """The value of `--k v` or `--k=v` (or `-b32`) among the args; the last one wins, as argparse has it."""
    found = None
    for index, arg in enumerate(args):
        if arg == flag and index + 1 < len(args):
            found = args[index + 1]
        elif arg.startswith(f"{flag}="):
            found = arg[len(flag) + 1 :]
        elif len(flag) == 2 and flag[1] != "-" and arg.startswith(flag) and len(arg) > 2:
            found = arg[2:]
    return found


def places(study: Study) -> tuple[tuple[int, int], ...]:
    """Nodes and workers of every setting asked for, fewest workers first; workers on one node by default."""
    if not study.nodes:
        return tuple((1, workers) for workers in study.workers)
    pairs = {(nodes, nodes * each) for nodes in study.nodes for each in study.workers_per_node or (1,)}
    return tuple(sorted(pairs, key=lambda pair: (pair[1], pair[0])))


def placed(study: Study) -> Study:
    """The study with the worker counts that its nodes mean. Without nodes it is the same study."""
    if not study.nodes:
        return study
    return replace(
        study,
        workers=tuple(sorted({workers for _, workers in places(study)})),
        workers_per_node=study.workers_per_node or (1,),
    )


def checked(study: Study) -> Study:
    """The study, its workers counted, or a UsageError that says which part of the request is impossible."""
    study, workload = placed(study), study.workload
    if study.workers_per_node and not study.nodes:
        raise UsageError(
            f"{_listed(study.workers_per_node)} workers per node are asked for, on no number of nodes",
            hint=f"--nodes 1,2 --workers-per-node {_listed(study.workers_per_node)}",
        )
    checked_use(study)
    if workload.start != "torchrun" and max(study.nodes, default=1) > 1:
        who = (
            "it starts its own workers"
            if workload.start == "script"
            else f"{workload.start} starts its workers"
        )
        raise UsageError(
            f"{workload.name}: {who}, which it can do on one node only, not on {max(study.nodes)}",
            hint="let torchrun start them (--launcher torchrun; the script reads RANK and WORLD_SIZE), or --nodes 1",
        )
    if not study.workers or min(study.workers) < 1:
        raise UsageError(f"workers {study.workers} is not a list of positive counts", hint="--workers 1,2,4")
    for name, least in (("steps", 10), ("warmup", 0), ("repeats", 1)):
        if getattr(study, name) < least:
            raise UsageError(
                f"--{name} {getattr(study, name)} is below {least}", hint=f"--{name} {max(least, 5)}"
            )
    for name in ("timeout_s", "hang_s", "budget_device_s"):
        limit = getattr(study, name)
        if limit is not None and not limit > 0:
            raise UsageError(
                f"{name} is {limit}, not a positive number of seconds", hint="write 90, 15min or 2h"
            )
    if study.per_worker_batch and study.global_batch and len(study.scaling) == 1:
        other = "--global-batch" if study.scaling == ("weak",) else "--per-worker-batch"
        raise UsageError(
            f"{other} has no part in {study.scaling[0]} scaling", hint=f"--scaling both, or no {other}"
        )
    if study.threads is not None and study.threads < 1:
        raise UsageError(f"--threads {study.threads} is below 1", hint="--threads 1")
    keys = [key for key, _ in study.vary]
    if len(set(keys)) < len(keys):
        raise UsageError(f"--vary names {max(keys, key=keys.count)} twice", hint="--vary batch-size=32,64")
    for text in (workload.name, *workload.args, *(v for _, values in study.vary for v in values)):
        if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise UsageError(
                f"{text!r} is not valid text", hint="rename it: only valid UTF-8 can be recorded"
            )
    if workload.start == "script" and len(study.workers) > 1 and not _mentions(study, "{workers}"):
        raise UsageError(
            f"{workload.name} starts its own workers, and nothing in its args says how many",
            hint="write {workers} where it takes the number: -- --world-size {workers}, or --launcher torchrun",
        )
    return study


def joined(held: Study, asked: Mapping[str, object], *, workload: Workload | None) -> Study:
    """The study of a folder, widened by the flags given now. What contradicts it is refused."""
    if workload is not None and _essence(workload) != _essence(held.workload):
        raise UsageError(
            f"this folder holds a study of {command_text(held.workload)}, not of {command_text(workload)}",
            hint="give the new study its own folder with --out",
        )
    changes: dict[str, object] = {}
    if held.nodes and "workers" in asked:
        raise _both(_listed(held.nodes))
    for name, value in asked.items():
        before = getattr(held, name)
        if name in _UNITED:
            if bool(before) != bool(value):
                raise _contradiction(_FLAGS[name], before or "not given", value)
            united = (*before, *(v for v in _items(value) if v not in before))
            changes[name] = united if name in ("backends", "scaling") else tuple(sorted(united))
        elif name in _REPLACED:
            changes[name] = value
        elif name in _FIXED and value != before:
            raise _contradiction(f"--{name}", before, value)
        elif name == "vary":
            changes[name] = _united_vary(held.vary, value)
        elif isinstance(value, Goal):
            changes[name] = _joined_goal(held.goal, value)
    wider = checked(replace(held, **changes))  # type: ignore[arg-type]  # the names and types are those of asked
    if _base_matters(held) and min(wider.workers) != min(held.workers):
        raise _contradiction("--workers", held.workers, f"fewer than {min(held.workers)} workers")
    return wider


def refuse_both_counts(asked: Mapping[str, object]) -> None:
    """Workers are counted by themselves, or by nodes and workers per node, not both."""
    nodes = asked.get("nodes")
    if "workers" in asked and isinstance(nodes, tuple):
        raise _both(_listed(nodes))


def command_text(workload: Workload) -> str:
    """The workload as a person would type it."""
    return " ".join([*(["-m"] if workload.kind == "module" else []), workload.name, *workload.args])


def _essence(workload: Workload) -> tuple[object, ...]:
    return (workload.kind, workload.name, workload.args)


def _both(nodes: str) -> UsageError:
    return UsageError(
        f"--workers and --nodes {nodes} both say how many workers there are",
        hint=f"--nodes {nodes} --workers-per-node 2 (workers are nodes × workers per node), or --workers alone",
    )


def _listed(counts: Sequence[object]) -> str:
    return ",".join(map(str, counts))


def _items(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def _united_vary(
    held: tuple[tuple[str, tuple[str, ...]], ...], asked: object
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    wanted: dict[str, tuple[str, ...]] = dict(asked) if isinstance(asked, tuple) else {}
    if set(wanted) != {key for key, _ in held}:
        raise _contradiction("--vary", [key for key, _ in held] or "not given", list(wanted))
    return tuple((key, tuple(dict.fromkeys((*values, *wanted[key])))) for key, values in held)


def _joined_goal(held: Goal | None, asked: Goal) -> Goal:
    """More seeds are welcome; another target, metric or budget would not be comparable."""
    if held is None:
        raise _contradiction("no goal", "but timed steps", "--to-accuracy")
    for name, flag in (("target", "--to-accuracy"), ("metric", "--metric"), ("epochs", "--epochs")):
        before, now = getattr(held, name), getattr(asked, name)
        if now is not None and now != before:
            raise _contradiction(flag, before, now)
    return replace(held, seeds=asked.seeds or held.seeds)


def _contradiction(flag: str, before: object, now: object) -> UsageError:
    return UsageError(
        f"the runs in this folder were made with {flag} {before}; {now} would not be comparable",
        hint="give the new study its own folder with --out",
    )


def _base_matters(study: Study) -> bool:
    """Whether batches of one scaling were derived from the other's at the smallest worker count."""
    strong = "strong" in study.scaling and bool(study.per_worker_batch) and not study.global_batch
    weak = "weak" in study.scaling and bool(study.global_batch) and not study.per_worker_batch
    return strong or weak


def _mentions(study: Study, placeholder: str) -> bool:
    values = [value for _, many in study.vary for value in many]
    return any(placeholder in text for text in (*study.workload.args, *values))


def _names_batch(args: Sequence[str]) -> bool:
    return any("{per_worker_batch}" in arg or "{global_batch}" in arg for arg in args)
