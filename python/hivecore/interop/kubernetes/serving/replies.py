"""What kube-scheduler is answered, what is still to be done for it, and the line of the log."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from hivecore.interop.kubernetes.calls import BindReply, FilterReply, PreemptReply
from hivecore.interop.kubernetes.pods import PodId
from hivecore.interop.kubernetes.serving.logs import LOG

__all__ = ["Reply", "fields_of", "log_reply", "waits_for"]


@dataclass(slots=True)
class Reply:
    """What a request is answered, and what is still to be done for it."""

    status: int
    answer: Any
    """A record or plain data for JSON."""
    outcome: str = ""
    """What was decided: "bind", "deferred" (it has a node that is not offered yet), "preempt",
    "wait", "error", "unknown", "bound"; "": nothing was."""
    pod: PodId | None = None
    """The pod that it is about."""
    binding: dict[str, Any] | None = None
    """The object that binds the pod: to be sent before the answer."""
    claims: tuple[Any, ...] = ()
    """What device claims of the pod have to say before it is bound."""
    pause: float = 0.0
    """Seconds by which the answer is to be held back."""


def waits_for(
    victims: Mapping[str, Iterable[str]], name_of: Callable[[str], str]
) -> dict[str, str]:
    """Why a pod cannot go to the nodes of its victims yet, in kube-scheduler's words."""
    return {
        node: f"node({node}) is waiting for victim Pod(s) to be preempted: "
        + ", ".join(map(name_of, pods))
        for node, pods in victims.items()
    }


def log_reply(verb: str, reply: Reply, seconds: float) -> None:
    """Log a decision: a warning where something is wrong."""
    if LOG.isEnabledFor(20):
        fields = {
            "verb": verb,
            "outcome": reply.outcome,
            "milliseconds": round(seconds * 1e3, 3),
            **fields_of(reply),
            **_reason(reply.answer),
        }
        level = 30 if reply.outcome == "error" else 20
        LOG.log(level, "decision", extra={"fields": fields})


def fields_of(reply: Reply) -> dict[str, Any]:
    """The pod that an answer is about, and its node if it is to be bound."""
    if reply.pod is None:
        return {}
    fields = {"pod": reply.pod.full, "uid": reply.pod.uid}
    if reply.binding is not None:
        fields["node"] = reply.binding["target"]["name"]
    return fields


def _reason(answer: FilterReply | BindReply | PreemptReply) -> dict[str, Any]:
    """What the answer says, in short."""
    if answer.error is not UNSET and answer.error:
        return {"error": answer.error}
    if isinstance(answer, PreemptReply):
        victims = answer.node_name_to_meta_victims.items()
        named = {node: [pod.uid for pod in victim.pods] for node, victim in victims}
        return {"victims": named} if named else {}
    if isinstance(answer, BindReply):
        return {}
    result: dict[str, Any] = {"NodeNames": answer.node_names} if answer.node_names else {}
    failed = answer.failed_nodes or {}
    reasons = set(failed.values())
    if len(reasons) == 1 < len(failed):
        failed = {f"{len(failed)} nodes": reasons.pop()}
    return {**result, "FailedNodes": failed} if failed else result
