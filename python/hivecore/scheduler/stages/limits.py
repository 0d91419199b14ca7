"""How many pods of a unit each node may get, as devices and claims allow."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore.scheduler.stages.claims import ClaimStage
from hivecore.scheduler.stages.devices import DeviceStage
from hivecore.scheduler.stages.nodes import Place
from hivecore.scheduler.stages.units import Kind, Places

__all__ = ["Limits"]


class Limits:
    """The argument ``most`` of `NetworkTopology` and `CellCluster` for a unit.

    Counts assume that all pods are equal. If they request different devices, or cells choose the
    GPUs, fewer may fit. Each refusal then lowers the count of its node.

    :param is_idle: count as if all nodes were idle and healthy.
    :param present: by role and node, the number of other pods of the job.
    """

    def __init__(
        self,
        place: Place,
        devices: DeviceStage | None,
        claims: ClaimStage | None,
        kind: Kind,
        is_idle: bool,
        present: Mapping[tuple[str, str], int] = MappingProxyType({}),
    ) -> None:
        self._devices, self._claims, self._is_idle = devices, claims, is_idle
        self._nodes: tuple[str, ...] = place.part.nodes
        rows = [*zip(kind.sizes, place.rows(kind), strict=True)]
        #: for each pod, the number of its request to placement, 0 or 1; None: it is not placed
        self._rows = [row for (_, pods), row in rows for _ in range(pods)]
        templates = [role.claims for role, pods in kind.sizes for _ in range(pods)]
        requests: tuple[dict[Any, None], dict[Any, None]] = {}, {}
        for row, request, own in zip(self._rows, kind.devices, templates, strict=True):
            if row is not None:
                needs = None if devices is None else request, () if claims is None else own
                requests[row][needs] = None
        pods = Counter(self._rows)
        first, others = (
            self._room(list(needs_of_row), pods[row]) for row, needs_of_row in enumerate(requests)
        )
        #: int[nodes]; with two requests int[k, nodes]: for the first, beside 0 to k - 1 pods of the
        #: second
        self.most = first
        if pods[1]:
            beside = np.arange(1 + int(others.max(initial=0)))[:, np.newaxis]
            self.most = np.where(beside <= others, first, -1)
            if len(requests[0]) == len(requests[1]) == 1 and None not in (
                *(request for request, _ in requests[0]),
                *(request for request, _ in requests[1]),
            ):
                (first_request,), (second_request,) = requests
                self.most = np.full_like(self.most, -1)
                for number in range(1 + int(first.max(initial=0))):
                    left = self._capacity(
                        second_request, pods[1], self._nodes, (first_request, number)
                    )
                    self.most = np.where(beside <= left, number, self.most)
        for (role, _), row in rows:
            if role.per_node is not None and row is not None:
                most = np.full(len(self._nodes), role.per_node, np.int32)
                if present:
                    most -= [present.get((role.name, node), 0) for node in self._nodes]
                self._keep(row, np.maximum(most, 0))

    def _keep(self, row: int, most: npt.NDArray[np.int32]) -> None:
        """Limit the pods of a request on each node."""
        if not row:
            np.minimum(self.most, most, out=self.most)
        else:
            self.most[np.arange(len(self.most))[:, np.newaxis] > most] = -1

    def _room(self, requests: list[Any], pods: int) -> npt.NDArray[np.int32]:
        """An upper bound for the pods of a request on each node."""
        if (None, ()) in requests or not requests:
            return np.full(len(self._nodes), pods, np.int32)
        room = np.zeros(len(self._nodes), np.int32)
        for request in requests:
            room += self._capacity(request, pods, self._nodes)
        return room

    def _capacity(
        self, needs: Any, pods: int, nodes: tuple[str, ...], after: Any = None
    ) -> npt.NDArray[np.int32]:
        """How many such pods nodes have room for after those in ``after``; -1: not for these."""
        (request, claims), room = needs, np.full(len(nodes), pods, np.int32)
        if request is not None and self._devices is not None:
            first = after and (after[0][0], after[1])
            room = self._devices.capacity(request, pods, nodes, first, is_idle=self._is_idle)
        if claims and self._claims is not None:
            beside = self._claims.capacity(claims, pods, nodes, is_idle=self._is_idle)
            room = np.minimum(room, beside)
        return room

    def refuse(self, places: Places, pod: int) -> None:
        """Lower the count of a node after devices refused a pod there."""
        node = places[pod][0]
        number = self._nodes.index(node)
        on_node = (places[i][0] == node for i in range(pod + 1))
        pods_there = Counter(row for row, on in zip(self._rows, on_node, strict=False) if on)
        lowered = (
            self.most[pods_there[1] :, number]
            if self.most.ndim > 1
            else self.most[number : number + 1]
        )
        np.minimum(lowered, pods_there[0] - 1, out=lowered)
