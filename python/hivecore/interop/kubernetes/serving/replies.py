"""What kube-scheduler is answered, what is still to be done for it, and the line of the log."""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Any

from hivecore.interop.kubernetes.serving.logs import LOG

__all__ = ["Reply", "fields_of", "log_reply"]


@dataclass(slots=True)
class Reply:
    """What a request is answered, and what is still to be done for it."""

    status: int
    answer: Any
    """Plain data for JSON."""
    outcome: str = ""
    """What was decided: "bind", "deferred" (it has a node that is not offered yet), "preempt",
    "wait", "error", "unknown", "bound"; "": nothing was."""
    pod: Mapping[str, str] = attribute(default_factory=dict)
    """Name, namespace and uid of the pod that it is about."""
    binding: dict[str, Any] | None = None
    """The object that binds the pod: to be sent before the answer."""
    pause: float = 0.0
    """Seconds by which the answer is to be held back."""


def log_reply(verb: str, reply: Reply, seconds: float) -> None:
    """Log a decision: a warning where something is wrong."""
    if LOG.isEnabledFor(20):
        fields = {
            "verb": verb,
            "outcome": reply.outcome,
            "milliseconds": round(seconds * 1e3, 3),
            **fields_of(reply),
            **_reason(reply),
        }
        level = 30 if reply.outcome == "error" else 20
        LOG.log(level, "decision", extra={"fields": fields})


def fields_of(reply: Reply) -> dict[str, Any]:
    """The pod that an answer is about, and its node if it is to be bound."""
    if not reply.pod:
        return {}
    found = {"pod": f"{reply.pod['namespace']}/{reply.pod['name']}", "uid": reply.pod["uid"]}
    if reply.binding is not None:
        found["node"] = reply.binding["target"]["name"]
    return found


def _reason(reply: Reply) -> dict[str, Any]:
    """What the answer says, in short."""
    answer = reply.answer
    if answer.get("Error"):
        return {"error": answer["Error"]}
    found = {key: answer[key] for key in ("NodeNames", "FailedNodes") if answer.get(key)}
    reasons = set((answer.get("FailedNodes") or {}).values())
    if len(reasons) == 1 < len(found["FailedNodes"]):
        found["FailedNodes"] = {f"{len(found['FailedNodes'])} nodes": reasons.pop()}
    victims = answer.get("NodeNameToMetaVictims")
    if victims:
        found["victims"] = {
            node: [pod["UID"] for pod in one["Pods"]] for node, one in victims.items()
        }
    return found
