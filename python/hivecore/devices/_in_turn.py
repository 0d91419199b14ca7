"""Pods that are alike, one after the other."""

from typing import Protocol

from hivecore._arguments import as_name
from hivecore.devices.device_decision import DeviceDecision
from hivecore.devices.device_request import DeviceRequest

__all__ = ["in_turn"]


class _Cluster(Protocol):
    def schedule(
        self, request: DeviceRequest, *, nodes: tuple[str, ...] | None
    ) -> DeviceDecision: ...
    def commit(self, decision: DeviceDecision) -> None: ...
    def release(self, name: str) -> None: ...


def in_turn(
    cluster: _Cluster,
    request: DeviceRequest,
    owners: tuple[str, ...],
    nodes: tuple[str, ...] | None,
) -> tuple[DeviceDecision, ...]:
    """See `DeviceCluster.allocate_many`; for policies whose choices depend on names or on earlier
    pods.
    """
    if len(set(owners)) < len(owners):
        raise ValueError("owners: one has devices already, or is named twice")
    decisions: list[DeviceDecision] = []
    served: list[str] = []
    is_done = False
    try:
        for name in owners:
            pod = request.replace(name=as_name(name, "owners"))
            decisions.append(cluster.schedule(pod, nodes=nodes))
            if decisions[-1].outcome != "bind":
                return (decisions[-1],)
            cluster.commit(decisions[-1])
            served.append(name)
        is_done = True
        return tuple(decisions)
    finally:
        for name in () if is_done else reversed(served):
            cluster.release(name)
