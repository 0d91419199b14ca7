"""Pods that wait, and when kube-scheduler is to try one of them again.

kube-scheduler tries a pod again when it sees that a pod or node has changed, often before the
extender has heard of it; the answer is "wait" then, and the pod is left alone for minutes. So
whenever something may have become free the waiting pods are decided on once more, and those that
would get more than they got are touched. A pod is touched at most once a second, and less and less
often while kube-scheduler does not try it: the reason is not known here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from hivecore.decisions import Outcome
from hivecore.interop.hived.pods import PodRequest
from hivecore.interop.hived.scheduler import HivedScheduler, Outlook
from hivecore.interop.kubernetes.pods import PodId, RequestError

__all__ = ["WaitingPod", "WaitingPods"]

_SHORTEST, _LONGEST = 1.0, 64.0
_MOMENT = 0.1
_AT_A_TIME = 64
_OFTEN = 3
_WORTH = {"wait": 0, "preempt": 1, "bind": 2}


@dataclass(slots=True)
class WaitingPod:
    """A pod that was tried and could not be bound."""

    pod: PodId
    spec: Mapping[str, Any]
    request: PodRequest
    outcome: Outcome
    """What it was answered last."""
    outlook: Outcome = "wait"
    """What it would have got since."""
    touched: float = -inf
    """When it was touched last."""
    due: float = inf
    """When it is to be looked at again."""
    pause: float = _SHORTEST
    """How long it is left alone after the next look."""
    ignored: int = 0
    """How often it was touched since it was tried."""


class WaitingPods:
    """The pods that wait, by identity, the longest waiting first.

    Times are seconds of one clock that never goes back.
    """

    def __init__(self, scheduler: HivedScheduler) -> None:
        self._scheduler = scheduler
        self._pods: dict[str, WaitingPod] = {}
        self._groups: dict[str, dict[str, WaitingPod]] = {}
        self.is_sooner = False
        """Whether a pod has become due though nothing has become free; others set it back."""

    def __len__(self) -> int:
        return len(self._pods)

    def note(self, pod: PodId, spec: Mapping[str, Any], outcome: Outcome) -> None:
        """A pod was answered: it is bound, or waits from now on if it did not wait before."""
        if outcome == "bind":
            self.forget(pod.identity)
            self._call_mates(pod, spec)
            return
        if self.asks_otherwise(pod.identity, spec):
            self.forget(pod.identity)
        known = self._pods.get(pod.identity)
        if known is None:
            request = PodRequest.read(spec, pod.full)
            known = self._pods[pod.identity] = WaitingPod(pod, spec, request, outcome)
            self._groups.setdefault(request.gang, {})[pod.identity] = known
        else:
            known.outcome, known.due, known.pause, known.ignored = outcome, inf, _SHORTEST, 0
            known.outlook = "wait"

    def try_again(self, pod: PodId, spec: Mapping[str, Any], now: float) -> None:
        """A pod has a place that kube-scheduler cannot take yet: it is due in a moment."""
        self.note(pod, spec, "wait")
        self._pods[pod.identity].due = now + _MOMENT
        self.is_sooner = True

    def _call_mates(self, pod: PodId, spec: Mapping[str, Any]) -> None:
        """A pod has a place: those of its group, perhaps offered too few nodes, are due."""
        mates = self._groups and self._groups.get(PodRequest.read(spec, pod.full).gang)
        for mate in (mates or {}).values():
            if mate.due > mate.touched + _SHORTEST:
                mate.due = mate.touched + _SHORTEST
                self.is_sooner = True

    def asks_otherwise(self, identity: str, spec: Mapping[str, Any]) -> bool:
        """Whether a pod waits for something else than it asks for now."""
        known = self._pods.get(identity)
        return known is not None and known.spec != spec

    def forget(self, identity: str) -> None:
        """The pod is gone."""
        known = self._pods.pop(identity, None)
        if known is not None:
            mates = self._groups[known.request.gang]
            del mates[identity]
            if not mates:
                del self._groups[known.request.gang]

    def preempting(self) -> list[WaitingPod]:
        """The pods that wait for victims to go, or would if they were asked about."""
        return [pod for pod in self._pods.values() if "preempt" in (pod.outcome, pod.outlook)]

    def look_again(self, now: float) -> None:
        """Something may have become free: every pod is due, a second after its last touch."""
        for pod in self._pods.values():
            pod.due = max(now, pod.touched + _SHORTEST)

    def next_due(self) -> float:
        """When a pod is to be looked at again; infinite: when something has become free."""
        return min((pod.due for pod in self._pods.values()), default=inf)

    def to_touch(self, now: float) -> Iterator[WaitingPod | None]:
        """The pods that would get more now than they got; None: others may have a turn.

        What one of them would get the ones after it do not, so that eight free GPUs call for eight
        pods and not for all. Pods that are not tried come last. A pod that gets nothing is looked
        at again when something has become free, and after a while.
        """
        due = [(identity, pod) for identity, pod in self._pods.items() if pod.due <= now]
        if not due:
            return
        due.sort(key=lambda entry: entry[1].ignored >= _OFTEN)
        outlook = self._scheduler.outlook()
        for pod in self._pods.values():
            if pod.due > now and pod.touched > now - _SHORTEST and pod.ignored < _OFTEN:
                _outcome(outlook, pod)  # it is on its way
        refused: dict[PodRequest, Outcome] = {}
        for i, (identity, pod) in enumerate(due):
            if i % _AT_A_TIME == _AT_A_TIME - 1:
                yield None
            if self._pods.get(identity) is not pod or pod.due > now:
                continue
            pod.due = now + pod.pause
            pod.pause = min(2 * pod.pause, _LONGEST)
            shape = pod.request._replace(gang="")
            live = self._scheduler.is_live(pod.request.gang)
            # What one pod is refused, equal pods after it are refused as well.
            outcome = None if live else refused.get(shape)
            if outcome is None:
                outcome = _outcome(outlook, pod)
                if outcome != "bind" and not live:
                    refused[shape] = outcome
            if _WORTH[outcome] > _WORTH[pod.outcome]:
                pod.touched, pod.outlook = now, outcome
                pod.ignored += 1
                yield pod


def _outcome(outlook: Outlook, pod: WaitingPod) -> Outcome:
    try:
        return outlook.outcome(pod.pod, pod.spec)
    except RequestError:
        return "wait"
