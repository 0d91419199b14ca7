"""Jobs and actions as plain data for JSON, and back."""

from collections.abc import Mapping
from typing import Any

from hivecore._arguments import as_bool, as_int, as_mapping, as_name, as_text, as_tuple
from hivecore.decisions import Refusal
from hivecore.devices import DeviceNeed, DeviceRequest, LabelExpression
from hivecore.scheduler.actions import (
    Action,
    Move,
    PlacedPod,
    Preempt,
    Promote,
    Reject,
    SetCache,
    SetRemoteIO,
    Start,
    Stop,
    Wait,
)
from hivecore.scheduler.job import Data, Job, Role, Where
from hivecore.scheduler.plain.fields import Plain, read_fields, told_fields

__all__ = ["action_of_plain", "job_of_plain", "plain_action", "plain_job"]

_ROLE = {"pods": 1, "resources": ()}
_WHERE = {
    "leaf_type": "",
    "pinned_cell": "",
    "within": "",
    "must": "",
    "prefer": "",
    "multiple": (),
    "nodes": (),
}
_JOB = {
    "priority": 0,
    "preemptible": True,
    "guaranteed": True,
    "run_time": None,
    "stages": (),
    "after": (),
    "together": (),
}
_SHARED = {"shares_with": (), "offsets": ()}
_START = {**_SHARED, "lent": False}
_NEED = {
    "count": 1,
    "every": False,
    "selector": (),
    "vf_selector": None,
    "exclusive": None,
    "scope": None,
    "preferred_scope": None,
    "repeat": False,
}
_DEVICES = {
    "joint": (),
    "same_pcie": False,
    "partition": None,
    "bandwidth": None,
    "isolation_provider": "",
    "models": (),
}


def plain_job(job: Job) -> Plain:
    """A job as plain data; what is as by default is left out.

    >>> from hivecore.scheduler import Job, plain_job
    >>> plain_job(Job("train", "vision", 2, priority=1))
    {'name': 'train', 'tenant': 'vision', 'roles': [{'name': 'pod', 'gpus': 2}], 'priority': 1}
    """
    made: Plain = {"name": job.name, "tenant": job.tenant}
    made["roles"] = [_plain_role(role) for role in job.roles]
    made |= told_fields(job, _JOB)
    if job.quota != job.tenant:
        made["quota"] = job.quota
    if where := told_fields(job.where, _WHERE):
        made["where"] = where
    if job.data is not None:
        made["data"] = {"dataset": job.data.dataset, "rate_mbps": job.data.rate_mbps}
        if job.data.total_gb < float("inf"):
            made["data"]["total_gb"] = job.data.total_gb
    return made


def job_of_plain(data: Mapping[str, Any]) -> Job:
    """The job of plain data.

    :raises ValueError: something is missing, unknown or out of range.
    :raises TypeError: something is of a wrong type.
    """
    given = read_fields(
        data,
        "job",
        ("name", "tenant", "roles"),
        {*_JOB, "quota", "where", "data"},
        roles=lambda roles: [_role(one) for one in as_tuple(roles, "roles")],
        where=lambda where: Where(**read_fields(where, "where", (), set(_WHERE))),
        data=lambda data: Data(**read_fields(data, "data", ("dataset", "rate_mbps"), {"total_gb"})),
    )
    return Job(**given)


def plain_action(action: Action) -> Plain:
    """An action as plain data.

    >>> from hivecore.scheduler import Preempt, plain_action
    >>> plain_action(Preempt("spare", "train", "opportunistic"))
    {'action': 'preempt', 'job': 'spare', 'for_job': 'train', 'why': 'opportunistic'}
    """
    if isinstance(action, Start):
        made = {"action": "start", "job": action.job, "pods": _plain_pods(action.pods)}
        return made | told_fields(action, _START)
    if isinstance(action, Promote):
        return {"action": "promote", "job": action.job, "pods": _plain_pods(action.pods)}
    if isinstance(action, Move):
        pods, before = _plain_pods(action.pods), _plain_pods(action.before)
        made = {"action": "move", "job": action.job, "pods": pods, "before": before}
        return made | told_fields(action, _SHARED)
    if isinstance(action, Preempt):
        named = {"for_job": action.for_job, "why": action.why}
        return {"action": "preempt", "job": action.job, **named}
    if isinstance(action, Stop):
        pods = _plain_pods(action.pods)
        return {"action": "stop", "job": action.job, "pods": pods, "node": action.node}
    if isinstance(action, Reject):
        return {"action": "reject", "job": action.job, "reason": action.reason}
    if isinstance(action, SetCache):
        return {"action": "set_cache", "dataset": action.dataset, "size": action.size}
    if isinstance(action, SetRemoteIO):
        return {"action": "set_remote_io", "job": action.job, "rate_mbps": action.rate_mbps}
    refusal = action.refusal
    told = [refusal.stage, refusal.code, refusal.reason, refusal.part]
    return {"action": "wait", "job": action.job, "refusal": told}


def action_of_plain(data: Mapping[str, Any]) -> Action:
    """The action of plain data; of a `Start` without its decisions.

    :raises ValueError: something is missing, unknown or out of range.
    :raises TypeError: something is of a wrong type.
    """
    given = dict(as_mapping(data, "action"))
    kind = given.pop("action", None)
    if kind == "start":
        found = read_fields(given, "action", ("job", "pods"), set(_START))
        lent = as_bool(found.get("lent", False), "lent")
        job, pods = as_name(found["job"], "job"), _pods(found["pods"])
        return Start(job, pods, lent=lent, **_shared(found))
    if kind == "promote":
        found = read_fields(given, "action", ("job", "pods"), set())
        return Promote(as_name(found["job"], "job"), _pods(found["pods"]))
    if kind == "move":
        found = read_fields(given, "action", ("job", "pods", "before"), set(_SHARED))
        pods, before = _pods(found["pods"]), _pods(found["before"])
        return Move(as_name(found["job"], "job"), pods, before, **_shared(found))
    if kind == "preempt":
        return Preempt(**read_fields(given, "action", ("job", "for_job", "why"), set()))
    if kind == "stop":
        found = read_fields(given, "action", ("job", "pods", "node"), set())
        node = as_name(found["node"], "node")
        return Stop(as_name(found["job"], "job"), _pods(found["pods"]), node)
    if kind == "reject":
        return Reject(**read_fields(given, "action", ("job", "reason"), set()))
    if kind == "wait":
        found = read_fields(given, "action", ("job", "refusal"), set())
        told = [as_text(one, "refusal") for one in as_tuple(found["refusal"], "refusal")]
        if len(told) != 4:
            raise ValueError("refusal: must be a stage, a code, a reason and a part")
        return Wait(as_name(found["job"], "job"), Refusal(*told))
    if kind == "set_cache":
        return SetCache(**read_fields(given, "action", ("dataset", "size"), set()))
    if kind == "set_remote_io":
        return SetRemoteIO(**read_fields(given, "action", ("job", "rate_mbps"), set()))
    raise ValueError(f"action={kind!r}: there is no such action")


def _plain_role(role: Role) -> Plain:
    made: Plain = {"name": role.name} | told_fields(role, _ROLE)
    if role.min_pods != role.pods:
        made["min_pods"] = role.min_pods
    if role.devices is None:
        made["gpus"] = role.gpus
    else:
        needs = [_plain_need(need) for need in role.devices.needs]
        made["devices"] = {"needs": needs} | told_fields(role.devices, _DEVICES)
    return made


def _plain_need(need: DeviceNeed) -> Plain:
    made = {"type": need.type, "amounts": dict(need.amounts)} | told_fields(need, _NEED)
    for name in _SELECTORS:
        rules = getattr(need, name)
        if any(isinstance(rule, LabelExpression) for rule in rules or ()):
            made[name] = [_plain_rule(rule) for rule in rules]
    return made


def _plain_rule(rule: tuple[str, str] | LabelExpression) -> Any:
    if isinstance(rule, LabelExpression):
        return {"key": rule.key, "operator": rule.operator, "values": list(rule.values)}
    return list(rule)


def _selector(data: Any) -> Any:
    """Labels as a mapping, or a list of pairs and expressions."""
    if data is None or isinstance(data, Mapping):
        return data
    return [
        LabelExpression(**read_fields(rule, "selector", ("key", "operator"), {"values"}))
        if isinstance(rule, Mapping)
        else as_tuple(rule, "selector")
        for rule in as_tuple(data, "selector")
    ]


def _role(data: Any) -> Role:
    return Role(
        **read_fields(
            data,
            "role",
            ("name",),
            {"pods", "gpus", "min_pods", "devices", "resources"},
            devices=_devices,
        )
    )


def _devices(data: Any) -> DeviceRequest:
    given = read_fields(data, "devices", ("needs",), set(_DEVICES))
    needs = [
        DeviceNeed(**read_fields(need, "need", ("type", "amounts"), set(_NEED), **_SELECTORS))
        for need in as_tuple(given.pop("needs"), "needs")
    ]
    return DeviceRequest("any pod", needs=needs, **given)


_SELECTORS = {"selector": _selector, "vf_selector": _selector}


def _shared(found: Plain) -> Plain:
    others = as_tuple(found.get("shares_with", ()), "shares_with")
    offsets = as_tuple(found.get("offsets", ()), "offsets")
    if len(offsets) != len(others) + bool(others):
        raise ValueError("offsets: must be one of the job and of each that it shares with")
    return {
        "shares_with": tuple(as_name(one, "shares_with") for one in others),
        "offsets": tuple(as_int(one, "offsets", 0, 8) for one in offsets),
    }


def _plain_pods(pods: tuple[PlacedPod, ...]) -> list[Any]:
    return [
        [pod.role, pod.index, pod.node, {type: list(them) for type, them in pod.minors}]
        for pod in pods
    ]


def _pods(data: Any) -> tuple[PlacedPod, ...]:
    return tuple(_pod(pod) for pod in as_tuple(data, "pods"))


def _pod(data: Any) -> PlacedPod:
    fields = as_tuple(data, "pods")
    if len(fields) != 4:
        raise ValueError("pods: must be a role, an index, a node and minors by type")
    role, index, node, minors = fields
    by_type = as_mapping(minors, "minors").items()
    return PlacedPod(
        as_name(role, "role"),
        as_int(index, "index", 0, 2**31),
        as_text(node, "node"),
        tuple((as_name(type, "minors"), _minors(them)) for type, them in by_type),
    )


def _minors(data: Any) -> tuple[int, ...]:
    return tuple(as_int(one, "minors", 0, 2**31) for one in as_tuple(data, "minors"))
