"""Ray: placement groups that put the pods of a job where a scheduler decided."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hivecore._arguments import as_instance, as_name
from hivecore.devices import NodeDevices
from hivecore.scheduler import (
    Action,
    Job,
    Move,
    Preempt,
    Promote,
    Reject,
    Scheduler,
    Start,
    Stop,
    Wait,
)

__all__ = ["Gangs", "bundles"]

_BY_TOTAL = ("runtime", "total", "evicted")  # codes of refusals by quotas
_Bundles = list[dict[str, float]]
_Selectors = list[dict[str, str]]


def bundles(start: Start, *, label: str = "ray.io/node-id") -> tuple[_Bundles, _Selectors]:
    """Return ``bundles`` and ``bundle_label_selector`` of ``ray.util.placement_group``.

    :param start: a scheduler's action; each pod becomes a bundle, in order.
    :param label: the label of Ray's nodes with the names that the scheduler uses.
    :raises ValueError: a pod has no node, or its GPUs are unknown.
    :raises TypeError: an argument has a wrong type.

    The scheduler must have devices, so that the number of each pod's GPUs is known. Ray itself
    chooses which GPUs of the node a pod gets.

    >>> from hivecore.interop.ray import bundles
    >>> from hivecore.scheduler import PlacedPod, Start
    >>> bundles(Start("train", [PlacedPod("worker", 0, "n1", (("gpu", (0, 1)),))]))
    ([{'GPU': 2.0}], [{'ray.io/node-id': 'n1'}])
    """
    as_instance(start, "start", Start)
    label = as_name(label, "label")
    for pod in start.pods:
        if not pod.node or not pod.gpus:
            raise ValueError(f"start: pod {pod.role}/{pod.index} has no node or no known GPUs")
    return (
        [{"GPU": float(len(pod.gpus))} for pod in start.pods],
        [{label: pod.node} for pod in start.pods],
    )


class Gangs:
    """The placement groups of Ray are those of the jobs that a scheduler runs.

    :param scheduler: with devices and without nodes: `step` adds them. Its victims stop at once, as
        the actors of a group do that is removed. With ``growing`` it keeps jobs for which there are
        too few nodes.
    :param create: makes a group of bundles and the selectors of their labels.
    :param remove: removes it.
    :param label: as of `bundles`; nodes that do not have it are not used.
    :raises ValueError: the scheduler has no devices, or its victims take time to stop.

    A node is in the domain of a layer that its label of the layer's name says. The total of quotas
    is that of the GPUs which are there. Ray has no group of a job that waits: its nodes are chosen
    when it starts, and until then `wanted` says what an autoscaler is to add.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        create: Callable[[_Bundles, _Selectors], Any],
        remove: Callable[[Any], Any],
        *,
        label: str = "ray.io/node-id",
    ) -> None:
        if scheduler.devices is None or not scheduler.immediate:
            raise ValueError("scheduler: it needs devices, and victims that stop at once")
        self.scheduler = scheduler
        self._create, self._remove, self._label = create, remove, as_name(label, "label")
        self._nodes: dict[str, int] = {}  # GPUs by name
        self._groups: dict[str, tuple[Start, Any]] = {}  # by job
        self._short: set[str] = set()  # jobs for which too little is free
        self._due: list[Action] = []  # decided, and not carried out yet

    def submit(self, job: Job, now: float) -> None:
        """Queue a job.

        :raises ValueError: pods of it might come or leave alone, or have no whole GPUs of their
            own; or as of `Scheduler.submit`.
        """
        as_instance(job, "job", Job)
        whole = all(
            role.gpus and role.devices is None and role.min_pods == role.pods and not role.max_pods
            for role in job.roles
        )
        if not whole or job.stages or job.on_failure != "job":
            raise ValueError(
                f"job={job.name!r}: a group has whole GPUs, and all pods from the start"
            )
        self.scheduler.submit(job, now)

    def end(self, name: str, now: float) -> None:
        """Remove a job that has ended or is not wanted any more.

        :raises KeyError: there is no such job.
        """
        self.scheduler.cancel(name, now)
        self._short.discard(name)
        self._due = [action for action in self._due if getattr(action, "job", "") != name]
        self._leave(name)

    def group(self, name: str) -> Any:
        """Return what ``create`` returned for a job; ``None``: it does not run."""
        return self._groups.get(name, (None, None))[1]

    @property
    def wanted(self) -> _Bundles:
        """Bundles for all jobs that run, or wait because too little is free: what
        ``ray.autoscaler.sdk.request_resources(bundles=...)`` takes to add nodes for them.
        """
        return [
            {"GPU": float(role.gpus)}
            for name in self.scheduler
            if name in self._groups or name in self._short
            for role in self.scheduler.job(name).roles
            for _ in range(role.pods)
        ]

    def step(self, now: float, nodes: Iterable[Mapping[str, Any]]) -> list[Action]:
        """Let the scheduler decide, and remove and create groups.

        :param nodes: what ``ray.nodes()`` returns. Jobs on a node that is gone get other nodes.
        :returns: what was decided. If Ray raises an error, the next step goes on from there.
        :raises ValueError: two nodes have the same label, or a number of GPUs is none.
        """
        self._compare(self._rows(nodes), now)
        actions = self.scheduler.decide(now)
        self._due += actions
        while self._due:
            self._carry_out(self._due[0])
            del self._due[0]
        return actions

    def _rows(self, nodes: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """Return the nodes that are there and have the label, by its value."""
        rows: dict[str, Mapping[str, Any]] = {}
        for row in nodes:
            name = (row.get("Labels") or {}).get(self._label) if row["Alive"] else None
            if name and rows.setdefault(name, row) is not row:
                raise ValueError(f"nodes: two have the label {self._label}={name!r}")
        return rows

    def _compare(self, rows: Mapping[str, Mapping[str, Any]], now: float) -> None:
        gpus = {name: _gpus(name, row) for name, row in rows.items()}
        present = {name: count for name, count in gpus.items() if count}
        # One that is back with other GPUs is another one.
        for name in sorted(dict(self._nodes.items() - present.items())):
            self.scheduler.remove_node(name, now)
        topology = self.scheduler.topology
        for name in sorted(dict(present.items() - self._nodes.items())):
            labels, more = rows[name]["Labels"], {}
            if topology is not None:
                more["labels"] = {at: labels[at] for at in topology.layers if at in labels}
                more["free"] = {"gpu": gpus[name]}
            inventory = NodeDevices.uniform(gpus[name])
            self.scheduler.add_node(name, now, inventory=inventory, **more)
        if present != self._nodes and self.scheduler.quotas is not None:
            self.scheduler.set_total({"gpu": sum(gpus.values())}, now)
        self._nodes = present

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, Wait):
            (self._short.add if _is_for_nodes(action) else self._short.discard)(action.job)
        elif isinstance(action, Start | Promote | Move):
            self._short.discard(action.job)
            self._put(Start(action.job, action.pods))
        elif isinstance(action, Preempt | Stop | Reject):
            self._leave(action.job)

    def _put(self, start: Start) -> None:
        if self._groups.get(start.job, (None,))[0] != start:
            self._leave(start.job)
            group = self._create(*bundles(start, label=self._label))
            self._groups[start.job] = start, group

    def _leave(self, name: str) -> None:
        if name in self._groups:
            self._remove(self._groups[name][1])
            del self._groups[name]


def _gpus(node: str, row: Mapping[str, Any]) -> int:
    given = row["Resources"].get("GPU", 0)
    try:
        return int(float(given))
    except (OverflowError, TypeError, ValueError):
        raise ValueError(f"nodes: {given!r} is no number of GPUs of {node!r}") from None


def _is_for_nodes(wait: Wait) -> bool:
    """Whether more nodes would help, and so a greater total of quotas."""
    stage, code = wait.refusal.stage, wait.refusal.code
    return stage in ("topology", "cells", "devices") or (stage == "quotas" and code in _BY_TOTAL)
