"""Writes why gangs wait, as conditions of PodGroups and events of pods.

kube-scheduler writes an event for every pod and attempt. Here a gang gets one event for each
reason, on its first pod. A failure to write is logged once, and nothing waits for it.
"""

import time
from collections.abc import Awaitable
from typing import Any, NamedTuple

from hivecore.interop.extender.gang_objects import GANG_KINDS
from hivecore.interop.extender.gangs import Gang
from hivecore.interop.extender.service import PodService
from hivecore.interop.kubernetes.client.api_server import MERGE, STRATEGIC, ApiError, ApiServer
from hivecore.interop.kubernetes.client.pod_events import now, write_event
from hivecore.interop.kubernetes.pods import PodId
from hivecore.interop.kubernetes.serving.logs import LOG

__all__ = ["GangReports"]

_LEAST = 5.0  # seconds between two reports of a gang
_MOST = 20  # gangs in one turn
_FINAL = (403, 404, 409, 422)  # not retried
_REASONS = {"wait": "GangWaits", "preempt": "GangWaitsForVictims", "error": "GangRefused"}


class _Report(NamedTuple):
    """What to write for a gang.

    :param pod: gets the event.
    :param reason: of the event; "" if none is due.
    :param condition: whether the gang is scheduled, or why not, for these objects.
    """

    gang: Gang
    pod: PodId
    outcome: str
    reason: str
    condition: tuple[bool, str]
    objects: list[tuple[str, str]]


class GangReports:
    """Writes the last answer of each gang, at most once in five seconds."""

    def __init__(self, api: ApiServer, service: PodService) -> None:
        self._api, self._service = api, service
        self._jobs = service.extender.jobs
        self._written: dict[str, float] = {}
        self._complained: set[tuple[str, int]] = set()

    async def write(self) -> None:
        """Write the reports that are due; the rest follows in the next turns."""
        for report in await self._service.look(self._due):
            is_done = True
            if report.reason:
                is_warning = report.outcome == "error"
                event = report.pod, _REASONS[report.outcome], report.reason, is_warning
                is_done = await self._tried("events", write_event(self._api, *event))
            for kind, name in report.objects:
                is_done &= await self._write_status(kind, name, report)
            if is_done:
                report.gang.reported = report.reason or report.gang.reported
                report.gang.condition = report.condition
            else:
                self._jobs.answered[report.gang.name] = None

    def _due(self) -> list[_Report]:
        moment = time.monotonic()
        self._written = {job: at for job, at in self._written.items() if at > moment - _LEAST}
        reports: list[_Report] = []
        for job in [job for job in self._jobs.answered if job not in self._written]:
            del self._jobs.answered[job]
            gang = self._jobs.gang(job)
            report = None if gang is None or not gang.members else self._report_of(gang)
            if report is not None and (report.reason or report.objects):
                self._written[job] = moment
                reports.append(report)
            if len(reports) == _MOST:
                break
        return reports

    def _report_of(self, gang: Gang) -> _Report:
        outcome, reason = gang.answer
        # As in Kubernetes, a gang that has started stays "scheduled".
        is_scheduled = outcome == "bind" or gang.has_started
        condition = is_scheduled, "" if is_scheduled else reason
        objects = [] if gang.condition == condition else self._jobs.definitions_of(gang)
        is_known = outcome == "bind" or gang.reported == reason
        return _Report(
            gang, gang.first.pod, outcome, "" if is_known else reason, condition, objects
        )

    async def _write_status(self, kind: str, name: str, report: _Report) -> bool:
        """Write into a gang's object whether the gang is scheduled."""
        given, (is_scheduled, reason) = GANG_KINDS[kind], report.condition
        namespace, _, local = name.partition("/")
        path = f"{given.path(namespace)}/{local}"
        if not given.is_of_kubernetes:
            phase = {"phase": "Scheduled" if is_scheduled else "Pending"}
            return await self._tried(kind, self._patch_phase(path, {"status": phase}))
        if not given.condition:
            return True  # a Workload has no status
        condition: dict[str, Any] = {
            "type": given.condition,
            "status": str(is_scheduled),
            "reason": "Scheduled" if is_scheduled else "Unschedulable",
            "message": reason,
        }
        before = report.gang.condition
        if before is None or before[0] != is_scheduled:
            condition["lastTransitionTime"] = now()
        status = {"status": {"conditions": [condition]}}
        patch = self._api.request("PATCH", f"{path}/status", status, content_type=STRATEGIC)
        return await self._tried(kind, patch)

    async def _patch_phase(self, path: str, status: dict[str, Any]) -> None:
        try:
            await self._api.request("PATCH", f"{path}/status", status, content_type=MERGE)
        except ApiError as error:
            if error.status != 404:
                raise
            # Koordinator's objects have no status subresource.
            await self._api.request("PATCH", path, status, content_type=MERGE)

    async def _tried(self, what: str, work: Awaitable[object]) -> bool:
        """Write; return ``False`` if a later attempt may succeed."""
        try:
            await work
        except ApiError as error:
            if (what, error.status) not in self._complained:
                self._complained.add((what, error.status))
                LOG.warning("%s: why gangs wait is not written (said once): %s", what, error)
            return error.status in _FINAL
        return True
