"""Audits whether the parts and the ledger agree."""

from collections.abc import Mapping, Sequence

from hivecore.errors import InvariantError
from hivecore.queues import TenantQueues
from hivecore.scheduler.job import Role
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.ledger.waiting import Waiting
from hivecore.scheduler.stages.stage import Audited
from hivecore.scheduler.stages.units import Unit, owner_of

__all__ = ["check"]


def check(state: State) -> None:
    """Audit the state and all parts; raise `InvariantError` if something is wrong."""
    queues = [line for line in (state.queues, state.lending) if line is not None]
    for line in queues:
        line.check()
    _check_units(state)
    _check_waiting(queues, state.waiting, state.queued)
    if state.relief is not None:
        state.relief.check()
    if state.on_draining is not None:
        others = state.running.keys() - state.on_draining
        nodes = {pod.node for of in others for unit in state.jobs[of].placed for pod in unit.placed}
        _require(nodes.isdisjoint(state.draining), "a job on a draining node is not known")


def _check_units(ledger: State) -> None:
    """Raise `InvariantError` unless each job has one state, and its resources in all parts."""
    stages, queued, waiting = ledger.stages, ledger.queued, ledger.waiting
    seen = set()
    units: list[Unit] = []
    running: list[Unit] = []
    holders: set[str] = set()
    reading: dict[str, bool] = {}
    gpus: dict[tuple[str, int], str] = {}
    held: dict[tuple[str, int], Live] = {}
    numbers = [live.number for live in ledger.jobs.values()]
    _require(numbers == sorted(numbers), "jobs are not in the order of submission")
    for live in ledger.jobs.values():
        name = live.job.name
        first = live.units[0]
        state = "pending" if first.name in queued else "running"
        if live.victims and live.held is None:
            state = "reserved"
        if live.extra_of:
            parent = ledger.jobs.get(live.extra_of)
            known = parent is not None and parent.extras.get(name) is live and parent.runs
            _require(known, f"pod {name!r} has no job")
        lent = live.lent
        if lent is not None:
            _require(state == "pending", f"job {name!r} is {state}, and lent cells")
            state = "lent" if lent.placed else state
            _require(first.has_quota == bool(lent.placed), f"job {name!r}: its quota")
        _require(live.state == state, f"job {name!r} is {live.state}, and its pods are {state}")
        has_victims = state == "reserved" or live.held is not None
        _require(has_victims or not live.victims, f"job {name!r}: victims")
        is_known = ledger.replacing.get(name) is live
        _require((live.held is not None) == is_known, f"job {name!r}: failed pods with victims")
        _require(state != "running" or bool(first.placed), f"job {name!r} runs nowhere")
        _require(not live.for_job or live.runs, f"job {name!r} has to stop, and waits")
        _require(state == "running" or len(live.units) == 1, f"job {name!r}: too many pods")
        if state == "running" and not live.for_job:
            lost = [pod for unit in live.lost for pod in unit.pods]
            placed = [(pod.role, pod.index) for pod in first.placed]
            are_all = sorted([*placed, *lost]) == sorted(first.pods)
            _require(are_all, f"job {name!r}: pods that have failed")
        if live.job.data is not None:
            reading[name] = live.runs and not live.has_stopped
        for unit in live.all_units:
            is_held = live.held is not None and live.held.name == unit.name
            if live.held is not None and is_held:
                unit = live.held
            is_queued = unit.name in queued
            _require(not (unit.placed and is_queued), f"unit {unit.name!r} runs, and is in a queue")
            _require(is_queued == waiting.has(unit.kind, unit.name), f"{unit.name!r}: its kind")
            seen.add(unit.name)
            holder = stages.members(unit.name)[0]
            units.append(unit)
            if unit.placed and live.runs and not is_held:
                running.append(unit)
            if unit.placed and holder == unit.name:
                holders.add(unit.name)
            in_parts = {role.name for role, _ in unit.kind.sizes if _takes_parts(role)}
            for pod in unit.placed:
                # the devices audit shares of GPUs; a whole GPU has one owner
                is_whole = pod.role not in in_parts
                for at in ((pod.node, gpu) for gpu in pod.gpus if pod.node):
                    if state == "reserved" or is_held:
                        right = not is_whole or held.setdefault(at, live) is live
                        _require(right, f"GPU {at} is held for two jobs")
                        continue
                    holds_it = f"job {holder}" if is_whole else "several"
                    owner = gpus.setdefault(at, holds_it)
                    _require(owner == holds_it, f"GPU {at} has two owners")
    for at, live in held.items():
        owner = gpus.get(at, "several")
        name = owner.removeprefix("job ")
        right = owner == "several" or owner_of(name, ledger.jobs) in live.victims
        _require(right, f"GPU {at} is held for {live.job.name!r}, and another job has it")
    _require(set(queued) <= seen, "a queue has units of no job")
    for fault in stages.check(Audited(units, running, holders, reading)):
        raise InvariantError(fault)


def _takes_parts(role: Role) -> bool:
    need = None if role.devices is None else role.devices.need("gpu")
    return need is not None and need.shared


def _check_waiting(
    lines: Sequence[TenantQueues], waiting: Waiting, queued: Mapping[str, Unit]
) -> None:
    """Raise `InvariantError` unless exactly the refused kinds are parked."""
    kinds = waiting.parked()
    parked = {kind for line in lines for tenant in line.tenants for kind in line.parked(tenant)}
    _require(parked == set(kinds), "other kinds are parked than wait")
    for name, unit in queued.items():
        is_there = sum(name in queues for queues in lines)
        _require(is_there == 1, f"unit {name!r} is in {is_there} queues")
        known = kinds.get(unit.kind.number)
        _require(known is None or known is unit.kind, f"kind {unit.kind.number} is there twice")


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise InvariantError(fault)
