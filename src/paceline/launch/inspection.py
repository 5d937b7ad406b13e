"""A look at every node before the first trial: versions, script, clock, and whether the nodes reach one another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paceline.core.json_data import record_from
from paceline.launch.facts import Subject, facts_of_this_node
from paceline.launch.nodes.gate import Member
from paceline.launch.nodes.route import listening, unreached
from paceline.launch.nodes.wire import Message, WireLost
from paceline.plan.preflight import Facts

__all__ = ["Asked", "inspected"]

_LOOK_S = 180.0
_ANSWER_S = 60.0
_REACH_S = 5.0
_CLOCK_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """What nodes are asked about: the desk's Python, its script or module, the folder it runs in, devices or not."""

    python: str
    script: str | None
    directory: str
    devices: bool
    module: str | None = None

    @property
    def subject(self) -> Subject:
        return Subject(self.python, self.script, self.devices, self.module, self.directory)


def inspected(asked: Asked, members: Sequence[Member]) -> tuple[Facts, ...]:
    """The Facts of the desk's own machine and of every member that answers. One that does not is lost."""
    for member in members:
        _tell(member, "look", python=asked.python, script=asked.script, directory=asked.directory,
              devices=asked.devices, module=asked.module)  # fmt: skip
    desk = facts_of_this_node(asked.subject, node=0, way=members[0].desk_way if members else None)
    found = [replace(desk, seen_as=_other(members[0].desk_seen_as, desk.address) if members else None)]
    for member in members:
        answer = _answer(member, "facts", _LOOK_S)
        if answer is not None:
            try:
                facts = record_from(Facts, answer.values.get("facts"))
            except (TypeError, ValueError):
                member.lose("what it says of itself cannot be read: it needs the desk's version of Paceline")
                continue
            skew_s, error_s = _skew(member)
            seen_as = _other(member.wire.peer_address, facts.address)
            found.append(
                replace(
                    facts,
                    node=member.node,
                    skew_s=skew_s,
                    skew_error_s=error_s,
                    seen_as=seen_as,
                    desk_at=member.wire.own_address,
                )
            )
    return _with_reach(found, [member for member in members if member.lost is None])


def _skew(member: Member) -> tuple[float | None, float | None]:
    """The node's clock minus the desk's, and how wrong that can be: the middle and half of the shortest round trip."""
    best: tuple[float, float] | None = None
    for _ in range(_CLOCK_ROUNDS):
        before = time.time()
        _tell(member, "clock")
        answer = _answer(member, "clock", _ANSWER_S)
        after = time.time()
        if answer is None:
            return None, None
        half_s = (after - before) / 2
        if best is None or half_s < best[1]:
            best = float(str(answer.values["now_s"])) - (before + half_s), half_s
    return best if best is not None else (None, None)


def _with_reach(found: Sequence[Facts], members: Sequence[Member]) -> tuple[Facts, ...]:
    """Every node opens a port, and every other node tries to reach it."""
    if not members or found[0].address is None:
        return tuple(found)
    with listening(found[0].address) as own:
        ports: dict[int, tuple[str, int]] = {0: (found[0].address, own.getsockname()[1])}
        for member in members:
            _tell(member, "listen")
            answer = _answer(member, "listening", _ANSWER_S)
            if answer is not None:
                ports[member.node] = (str(answer.values["address"]), int(str(answer.values["port"])))
        cut: dict[int, tuple[int, ...]] = {}
        for member in members:
            others = [[node, *place] for node, place in ports.items() if node != member.node]
            _tell(member, "reach", ports=others)
        cut[0] = unreached([(node, *place) for node, place in ports.items() if node], wait_s=_REACH_S)
        for member in members:
            answer = _answer(member, "reached", _ANSWER_S)
            lost = answer.values["unreachable"] if answer is not None else []
            cut[member.node] = tuple(int(node) for node in lost) if isinstance(lost, list) else ()
    return tuple(replace(facts, unreachable=cut.get(facts.node, ())) for facts in found)


def _other(seen: str | None, own: str | None) -> str | None:
    """The address that others see, where it is not the node's own."""
    return seen if None not in (seen, own) and seen != own else None


def _tell(member: Member, kind: str, **values: object) -> None:
    if member.lost is None:
        try:
            member.wire.send(kind, b"", **values)
        except WireLost as problem:
            member.lose(str(problem))


def _answer(member: Member, kind: str, wait_s: float) -> Message | None:
    """The next message of this kind; what else a node says meanwhile is passed over. None: the node is lost."""
    until = time.monotonic() + wait_s
    while member.lost is None:
        try:
            message = member.wire.receive(0.5)
        except WireLost as problem:
            member.lose(str(problem))
            break
        if message is not None and message.kind == kind:
            return message
        if message is not None and message.kind == "leaving":
            member.lose("it left")
        elif time.monotonic() > until:
            member.lose(f"no answer within {wait_s:.0f} s")
    return None
