"""The state of a scheduler as bytes: the states of its parts, and its jobs as JSON."""

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

from hivecore._arguments import LONGEST, as_bool, as_float, as_int, as_name
from hivecore._record import between
from hivecore.cells import CellCluster
from hivecore.decisions import Refusal
from hivecore.devices import DeviceCluster
from hivecore.dra import DraCluster
from hivecore.errors import CorruptStateError
from hivecore.queues import Departure, TenantQueues
from hivecore.quotas import QuotaTree
from hivecore.scheduler.actions import Action, PlacedPod, Reject
from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.budgets import Budgets
from hivecore.scheduler.ledger.extras import job_of
from hivecore.scheduler.ledger.lines import queued_job
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.precedence import Precedence
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.moves.fragments import Defragmentation, Fragments
from hivecore.scheduler.orders.ordering import Order, as_order
from hivecore.scheduler.plain import (
    action_of_plain,
    plain_record,
    record_of_plain,
)
from hivecore.scheduler.stages.claims import as_mode
from hivecore.scheduler.stages.devices import memory_of_gpus
from hivecore.scheduler.stages.sharing import SharingStage
from hivecore.scheduler.stages.storage import StorageStage
from hivecore.scheduler.stages.transaction import Stages
from hivecore.scheduler.stages.units import Pod, Unit
from hivecore.topology import NetworkTopology

__all__ = ["pack", "unpack"]

_PARTS: dict[str, Any] = {
    "quotas": QuotaTree,
    "cells": CellCluster,
    "topology": NetworkTopology,
    "devices": DeviceCluster,
    "claims": DraCluster,
}

_LENGTH = struct.Struct("<Q")


def pack(state: State, logged: int, pending: Sequence[Action]) -> bytes:
    """A state as bytes, with the number of its last log line and the actions not yet returned."""
    stages = state.stages
    plain: dict[str, Any] = {
        "settings": [state.has_queues, state.immediate, state.preemption, stages.tries],
        "lending": state.lending is not None,
        "storage": None,
        "parts": stages.names,
        "now": state.now,
        "logged": logged,
        "kinds": state.kinds.numbered,
        "waiting": state.waiting.plain(),
        "outbox": state.outbox,
        "jobs": [_plain_live(live) for live in state.jobs.values()],
    }
    more = {
        "untold": state.waiting_unreported(),
        "pending": pending,
        "precedence": state.precedence.plain(),
        "hosts": sorted(stages.hosts),
        "growing": stages.growing,
        "backfill": state.backfill,
        "fragments": state.fragments,
        "promised": state.promised,
        "may_promise": state.may_promise,
        "are_promises_old": not state.are_promises_new,
        "order": state.order and state.order.entries,
        "regroup_for": state.regroup_for,
        "draining": state.draining,
        "eviction_limits": state.budgets.plain(),
        "wake_at": state.wake_at if state.wake_at < inf else None,
        "defragmentation": state.defragmentation,
        "claims_mode": "" if stages.claims_mode == "first" else stages.claims_mode,
    }
    plain |= {name: value for name, value in more.items() if value}
    devices = stages.find(DeviceCluster)
    if devices is not None and stages.gpu_memory not in (None, memory_of_gpus(devices)):
        plain["gpu_memory"] = stages.gpu_memory
    if state.patience < inf:
        plain["patience"] = state.patience
    plain |= stages.plain()
    text = json.dumps(plain, separators=(",", ":"), default=plain_record).encode()
    parts = stages.to_bytes()
    if state.lending is not None:
        parts.append(state.lending.to_bytes())
    return _joined([text, state.queues.to_bytes(), *parts])


def unpack(data: bytes) -> tuple[State, int, list[Action]]:
    """Return the state with its own parts, the number of the last line of its log, and the decided
    actions that no call has returned yet.

    :raises ValueError: the bytes are damaged, or describe no possible state; other errors as well.
    """
    text, queues, *parts = _split(data)
    plain = json.loads(text)
    has_queues, immediate, preemption, tries = plain["settings"]
    lending = TenantQueues.from_bytes(parts.pop()) if plain["lending"] else None
    if len(parts) != len(plain["parts"]) or set(plain["parts"]) - set(_PARTS):
        raise ValueError("parts")
    read = dict.fromkeys(_PARTS) | {
        name: _PARTS[name].from_bytes(part)
        for name, part in zip(plain["parts"], parts, strict=True)
    }
    storage, sharing, memory = plain["storage"], plain.get("sharing"), plain.get("gpu_memory")
    stages = Stages.of(
        **read,
        storage=None if storage is None else StorageStage.pool_of_plain(storage),
        tries=as_int(tries, "tries", 1, 1000),
        sharing=None if sharing is None else SharingStage.terms_of_plain(sharing),
        hosts=frozenset(as_name(host, "hosts") for host in plain.get("hosts", ())),
        growing=as_bool(plain.get("growing", False), "growing"),
        gpu_memory=None if memory is None else as_int(memory, "gpu_memory", 0, 2**62),
        claims_mode=as_mode(plain.get("claims_mode", "first"), read["claims"]),
    )
    state = State(
        stages,
        TenantQueues.from_bytes(queues),
        lending=False,
        immediate=as_bool(immediate, "immediate"),
        preemption=as_bool(preemption, "preemption"),
        patience=as_float(plain.get("patience", inf), "patience"),
        backfill=as_int(plain.get("backfill", 0), "backfill", 0, 1000),
        fragments=record_of_plain(Fragments, plain["fragments"]) if "fragments" in plain else None,
    )
    state.lending = lending
    state.has_queues = as_bool(has_queues, "has_queues")
    state.now = state.moment(plain["now"])
    _read_jobs(state, plain)
    pending = [action_of_plain(action) for action in plain.get("pending", [])]
    return state, as_int(plain["logged"], "logged", -1, 2**62), pending


def _read_jobs(state: State, saved: Mapping[str, Any]) -> None:
    for plain in saved["jobs"]:
        live = _live_of_plain(plain, state)
        if live.job.name in state.jobs:
            raise ValueError(f"job {live.job.name!r} occurs twice")
        state.add(live)
    state.kinds.end_restoring(as_int(saved["kinds"], "kinds", 0, 2**61))
    placed = {unit.name: unit for unit in state.units() if unit.placed}
    for live in state.jobs.values():
        if live.for_job or live.lent is not None:
            state.stages.note_passing(live.placed)
    state.waiting.restore(saved["waiting"], {unit.kind.number: unit.kind for unit in state.units()})
    state.outbox = [action_of_plain(action) for action in saved["outbox"]]
    state.unreported = {name: state.jobs[name] for name in saved.get("untold", ())}
    state.rejected = {action.job for action in state.outbox if isinstance(action, Reject)}
    state.precedence = Precedence.of_plain(state.log, saved.get("precedence", {}))
    for live in state.jobs.values():
        state.stages.come(live.job)
        if live.runs and not live.has_stopped:
            state.stages.read(live.job.name, True)
    state.stages.restore(saved, placed)
    state.regroup_for = as_float(saved.get("regroup_for", 0.0), "regroup_for")
    if not 0.0 <= state.regroup_for <= LONGEST:
        raise ValueError("regroup_for")
    for node, until in saved.get("draining", {}).items():
        state.draining[as_name(node, "draining")] = between(0.0, LONGEST)(until, "draining")
    state.budgets = Budgets.of_plain(saved.get("eviction_limits", []), state.log)
    if "wake_at" in saved:
        state.wake_at = between(0.0, 2 * LONGEST)(saved["wake_at"], "wake_at")
    if "defragmentation" in saved:
        state.defragmentation = record_of_plain(Defragmentation, saved["defragmentation"])
    order = as_order(saved.get("order", []))
    state.order = Order(order, {}) if order else None  # it is sorted already
    state.note_states()
    state.are_promises_new = not as_bool(saved.get("are_promises_old", False), "are_promises_old")
    state.may_promise = as_bool(saved.get("may_promise", False), "may_promise")
    for name, time in saved.get("promised", {}).items():
        state.promised[state.jobs[name].job.name] = as_float(time, "promised")


def _joined(pieces: Iterable[bytes]) -> bytes:
    """Join pieces, each with its length."""
    return b"".join(_LENGTH.pack(len(piece)) + piece for piece in pieces)


def _split(data: bytes) -> list[bytes]:
    pieces, at = [], 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        if at > len(data):
            raise CorruptStateError("data: a part is cut off")
        pieces.append(data[at - length : at])
    return pieces


def _plain_live(live: Live) -> dict[str, Any]:
    reclaimed = [True] if live.is_reclaimed else []
    return {
        "job": live.extra_of or live.job,
        "state": live.state,
        "since": live.since,
        "attained": live.attained,
        "told": live.reported,
        "victims": live.victims,
        "stops": [live.for_job, live.has_stopped, live.is_ending, *reclaimed],
        "units": [_plain_unit(unit) for unit in live.units],
        "lent": None if live.lent is None else _plain_unit(live.lent),
        **({} if live.held is None else {"held": [live.held_since, *_plain_unit(live.held)]}),
    }


def _plain_unit(unit: Unit) -> list[Any]:
    departure = unit.departure
    return [
        unit.name,
        unit.kind.number,
        unit.kind.is_alone,
        unit.pods,
        None if departure is None else departure[1:],
        unit.is_placed,
        unit.placed,
    ]


def _live_of_plain(data: Mapping[str, Any], state: State) -> Live:
    kinds, extra_of = state.kinds, ""
    if isinstance(data["job"], str):
        extra_of = data["job"]
        job = job_of(state.jobs[extra_of].job, Pod(*data["units"][0][3][0]))
    else:
        job = record_of_plain(Job, data["job"])

    def unit_of(plain: list[Any], is_lent: bool) -> Unit:
        name, number, is_alone, pods, departure, is_placed, placed = plain
        is_first = is_lent or name == job.name
        role = None if is_first else next(role for role in job.roles if role.name == pods[0][0])
        numbered = tuple(Pod(*pod) for pod in pods)
        is_lost = (called := name[len(job.name) :]) == "/lost" or called.count("/") == 3
        if is_lent:
            kind = kinds.restored_lent(int(number), live.units[0].kind)
        else:
            lost = numbered if is_lost else ()
            kind = kinds.restored(int(number), bool(is_alone), job, role, lost)
        unit = Unit(name, job.name, kind, numbered, extra_of)
        unit.has_quota = is_lost
        if departure is not None:
            unit.departure = Departure(queued_job(state, unit, job), *departure)
        unit.is_placed = bool(is_placed)
        unit.placed = tuple(record_of_plain(PlacedPod, pod, "units") for pod in placed)
        return unit

    live = Live(job, [unit_of(plain, False) for plain in data["units"]])
    live.extra_of = extra_of
    if data["lent"] is not None:
        live.lent = unit_of(data["lent"], True)
        live.units[0].has_quota = bool(live.lent.placed)
    if "held" in data:
        since, *held = data["held"]
        live.held, live.held_since = unit_of(held, False), float(since)
    live.state, live.since = str(data["state"]), float(data["since"])
    live.attained = float(data.get("attained", 0.0))
    live.reported = data["told"] and record_of_plain(Refusal, data["told"], "told")
    live.victims = tuple(data["victims"])
    live.for_job, live.has_stopped, live.is_ending, *reclaimed = data["stops"]
    live.is_reclaimed = any(reclaimed)
    return live
