"""What is written of gangs that wait, request by request."""

import itertools

import pytest
from interop.extender.pods_and_kubelets import koordinator_pod

from hivecore.interop.extender import gang_reports
from hivecore.interop.extender.gang_reports import GangReports
from hivecore.interop.kubernetes.client.api_server import ApiError


class Api:
    """Records requests; refuses those whose path ends with a key of `refused`."""

    def __init__(self):
        self.requests, self.refused = [], {}

    async def request(self, method, path, body, **_):
        self.requests.append((method, path, body))
        for end, status in self.refused.items():
            if path.endswith(end):
                raise ApiError(status, "refused")

    def messages(self):
        return [body["message"] for _, path, body in self.requests if path.endswith("/events")]


@pytest.fixture
def reported(worlds, monkeypatch):
    """A world whose gangs are reported on, an API server, and what has them reported on."""
    times = itertools.count(100, 100)
    monkeypatch.setattr(gang_reports.time, "monotonic", lambda: float(next(times)))
    world, api = worlds("quotas, topology and devices"), Api()
    world.service.touches = True
    reports = GangReports(api, world.service)
    return world, api, lambda: world.runner.run(reports.write())


def test_a_reason_is_one_event_of_one_pod_until_it_changes(reported):
    world, api, write = reported
    pods = [koordinator_pod(f"g{i}", "a", 2, "g", 4) for i in range(3)]
    world.cluster.create(*pods[:2], koordinator_pod("alone", "a", 99))
    for _ in range(3):
        world.cluster.pump()
        write()
    (event,) = [body for _, _, body in api.requests]
    assert event["involvedObject"]["name"] == "g0"
    assert event["message"].startswith("2 of the 4 pods that 'x/g' needs are there")
    world.cluster.run(pods[2])
    write()
    assert [message[0] for message in api.messages()] == ["2", "3"]


@pytest.mark.parametrize(("status", "tries"), [(503, 3), (0, 3), (403, 1)])
def test_what_fails_for_now_is_tried_again_and_complained_about_once(
    reported, caplog, monkeypatch, status, tries
):
    world, api, write = reported
    monkeypatch.setattr(gang_reports.LOG, "propagate", True)
    api.refused["/events"] = status
    world.cluster.run(koordinator_pod("g0", "a", 2, "g", 4))
    for _ in range(3):
        write()
    assert len(api.messages()) == tries
    assert len([record for record in caplog.records if "not written" in record.message]) == 1


def test_a_gang_that_is_gone_or_starts_in_between_has_no_event(reported):
    world, api, write = reported
    world.cluster.run(koordinator_pod("g0", "a", 2, "g", 4))
    world.cluster.delete("g0")
    write()
    world.cluster.run(*[koordinator_pod(f"h{i}", "a", 2, "h", 2) for i in range(2)])
    write()
    assert set(world.cluster.bound()) == {"h0", "h1"}
    assert api.requests == []
