"""A script written for Horovod -> the same script on plain DistributedDataParallel, for the common patterns.

    hvd.init()                       init_process_group, the device of the local rank
    hvd.rank(), hvd.size(), …        torch.distributed's, and torchrun's environment
    hvd.broadcast_parameters(…)      goes: DistributedDataParallel broadcasts when it wraps
    hvd.broadcast_optimizer_state()  goes, with a word where the state was loaded on rank 0 alone
    hvd.DistributedOptimizer(opt)    opt; the network it trains is wrapped instead
    hvd.allreduce(x), …              torch.distributed's

Whole statements and single calls are replaced in the text, so comments and layout stay. What has no plain counterpart
is left as it is and named with its line.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from paceline.core.errors import UsageError

__all__ = ["Migrated", "migrated", "unified_diff"]

_PLAIN = {
    "rank": "dist.get_rank()",
    "size": "dist.get_world_size()",
    "local_rank": 'int(os.environ["LOCAL_RANK"])',
    "local_size": 'int(os.environ["LOCAL_WORLD_SIZE"])',
    "cross_rank": 'int(os.environ["GROUP_RANK"])',
    "is_initialized": "dist.is_initialized()",
    "shutdown": "dist.destroy_process_group()",
    "barrier": "dist.barrier()",
}
_GONE = {"broadcast_parameters", "broadcast_optimizer_state"}
_INIT = 'dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")'
_SUMMED, _AVERAGED = "summed_over_ranks", "averaged_over_ranks"
_HELPERS = {
    _SUMMED: f"""def {_SUMMED}(tensor):
    total = tensor.detach().clone()
    dist.all_reduce(total)
    return total
""",
    _AVERAGED: f"""def {_AVERAGED}(tensor):
    total = tensor.detach().clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()
""",
}


@dataclass(frozen=True, slots=True)
class Migrated:
    """The new text, and what is left to do by hand: (line of the old text, what)."""

    text: str
    by_hand: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text from (line, column) to (line, column) of the old script; columns count bytes."""

    begin: tuple[int, int]
    end: tuple[int, int]
    text: str


def migrated(source: str, *, name: str) -> Migrated:
    """The script on plain torch.distributed."""
    try:
        tree = ast.parse(source)
    except SyntaxError as problem:
        raise UsageError(
            f"{name}:{problem.lineno} is not Python: {problem.msg}", hint="correct it first"
        ) from None
    alias = _alias(tree)
    if alias is None:
        raise UsageError(
            f"{name} does not import horovod.torch, so there is nothing to migrate",
            hint="import horovod.torch as hvd is the form that is understood",
        )
    edits: list[Edit] = []
    by_hand: list[tuple[int, str]] = []
    network = _network(tree, alias)
    for statement in _statements(tree):
        edits += _statement_edits(statement, alias, network, by_hand)
    wrapped_after = min((s.lineno for s in _statements(tree) if _wraps(s, alias)), default=None)
    covered = [(edit.begin, edit.end) for edit in edits]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node, alias) is not None and not _inside(node, covered):
            edits += _call_edit(node, alias, by_hand)
        elif isinstance(node, ast.Attribute) and network is not None and not _inside(node, covered):
            edits += _module_edit(node, network, wrapped_after)
    edits += _helper_edits(tree, edits)
    if network is None and "DistributedOptimizer" in source:
        by_hand.append(
            (1, "no network was found to wrap: wrap it in DistributedDataParallel before its optimizer")
        )
    return Migrated(_applied(source, edits), tuple(sorted(by_hand)))


def unified_diff(before: str, after: str, *, name: str) -> str:
    """The change as a patch."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def _alias(tree: ast.Module) -> str | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                if item.name == "horovod.torch" and item.asname:
                    return item.asname
    return None


def _network(tree: ast.Module, alias: str) -> str | None:
    """The name of the network: whose parameters an optimizer that is then distributed was given."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node, alias) == "DistributedOptimizer":
            for keyword in node.keywords:
                match keyword.value:
                    case ast.Call(func=ast.Attribute(attr="named_parameters", value=owner)):
                        return ast.unparse(owner)
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(attr="optim") | ast.Name(id="optim")),
                args=[ast.Call(func=ast.Attribute(attr="parameters", value=owner)), *_],
            ):
                return ast.unparse(owner)
    return None


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.stmt))


def _statement_edits(
    node: ast.stmt, alias: str, network: str | None, by_hand: list[tuple[int, str]]
) -> list[Edit]:
    indent = " " * node.col_offset
    match node:
        case ast.Import(names=[ast.alias(name="horovod.torch", asname=name)]) if name == alias:
            lines = ["import os", "import torch.distributed as dist"]
            lines.append("from torch.nn.parallel import DistributedDataParallel")
            return [_whole(node, f"\n{indent}".join(lines))]
        case ast.Expr(value=ast.Call() as call) if _called(call, alias) == "init":
            return [_whole(node, _INIT)]
        case ast.Expr(value=ast.Call() as call) if _called(call, alias) in _GONE:
            if _called(call, alias) == "broadcast_parameters":
                return [_whole(node, "# DistributedDataParallel has broadcast rank 0's parameters")]
            by_hand.append(
                (node.lineno, "load the optimizer's checkpoint on every rank: nobody broadcasts it")
            )
            return [_whole(node, "# every rank begins with the same optimizer state")]
        case ast.Assign(targets=[target], value=ast.Call() as call) if (
            _called(call, alias) == "DistributedOptimizer" and network is not None and call.args
        ):
            optimizer = ast.unparse(call.args[0])
            by_hand.extend(_lost_options(call))
            wrap = f"{network} = DistributedDataParallel({network})"
            if ast.unparse(target) == optimizer:
                return [_whole(node, wrap)]
            return [_whole(node, f"{wrap}\n{indent}{ast.unparse(target)} = {optimizer}")]
    return []


def _lost_options(call: ast.Call) -> Iterator[tuple[int, str]]:
    kept = {"named_parameters", "optimizer"}
    for keyword in call.keywords:
        if keyword.arg == "backward_passes_per_step":
            yield (
                call.lineno,
                "backward_passes_per_step: run all but the last backward pass under network.no_sync()",
            )
        elif keyword.arg == "compression":
            yield call.lineno, "compression: register_comm_hook(None, fp16_compress_hook) does the same"
        elif keyword.arg not in kept:
            yield call.lineno, f"{keyword.arg} has no counterpart in DistributedDataParallel"


def _call_edit(node: ast.Call, alias: str, by_hand: list[tuple[int, str]]) -> list[Edit]:
    name = _called(node, alias) or ""
    if name in _PLAIN and not node.args:
        return [_whole(node, _PLAIN[name])]
    if name == "allreduce" and node.args:
        options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        op, average = options.pop("op", f"{alias}.Average"), options.pop("average", None)
        sums = op == f"{alias}.Sum" or average == "False"
        if options.keys() <= {"name"} and len(node.args) == 1 and (sums or op == f"{alias}.Average"):
            return [_whole(node, f"{_SUMMED if sums else _AVERAGED}({ast.unparse(node.args[0])})")]
    if name == "broadcast_object" and node.args:
        by_hand.append(
            (node.lineno, "broadcast_object: dist.broadcast_object_list([x], src=0) works in place")
        )
    else:
        by_hand.append((node.lineno, f"{alias}.{name}: write it with torch.distributed; it is left as it is"))
    return []


def _wraps(node: ast.stmt, alias: str) -> bool:
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and _called(node.value, alias) == "DistributedOptimizer"
    )


def _module_edit(node: ast.Attribute, network: str, wrapped_after: int | None) -> list[Edit]:
    """A checkpoint keeps the names of the bare network: after the wrapping, its state is the wrapper's .module's."""
    is_state = node.attr in ("state_dict", "load_state_dict") and ast.unparse(node.value) == network
    if not is_state or wrapped_after is None or node.lineno <= wrapped_after:
        return []
    return [_whole(node, f"{network}.module.{node.attr}")]


def _helper_edits(tree: ast.Module, edits: list[Edit]) -> list[Edit]:
    """The functions that replaced calls need, below the last import at the top of the script."""
    text = "".join(edit.text for edit in edits)
    needed = [body for name, body in _HELPERS.items() if f"{name}(" in text]
    last = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)][-1:]
    if not needed or not last:
        return []
    end = (last[0].end_lineno or last[0].lineno) + 1
    return [Edit((end, 0), (end, 0), "\n\n" + "\n\n".join(needed) + "\n")]


def _called(node: ast.Call, alias: str) -> str | None:
    match node.func:
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == alias:
            return name
    return None


def _whole(node: ast.stmt | ast.expr, text: str) -> Edit:
    assert node.end_lineno is not None and node.end_col_offset is not None  # noqa: PT018
    return Edit((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), text)


def _inside(node: ast.expr, spans: list[tuple[tuple[int, int], tuple[int, int]]]) -> bool:
    at = (node.lineno, node.col_offset)
    return any(begin <= at < end for begin, end in spans)


def _applied(source: str, edits: list[Edit]) -> str:
    """All edits, last first, so that places before them stay where they are."""
    lines = source.encode().splitlines(keepends=True)
    for edit in sorted(edits, key=lambda edit: edit.begin, reverse=True):
        (first, column), (last, end_column) = edit.begin, edit.end
        lines += [b""] * (last - len(lines))
        head, tail = lines[first - 1][:column], lines[last - 1][end_column:]
        lines[first - 1 : last] = [head + edit.text.encode() + tail]
    return b"".join(lines).decode()
