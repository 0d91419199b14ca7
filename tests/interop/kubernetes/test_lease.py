"""When a lease is taken over, by a clock that goes on only during a sleep."""

import asyncio

import pytest

from hivecore.interop.kubernetes.client import lease
from hivecore.interop.kubernetes.client.lease import Lease


class Api:
    """An API server with one lease, of a holder that renews until a time."""

    def __init__(self, clock, killed):
        self.clock, self.killed = clock, killed
        self.spec = {"holderIdentity": "first", "leaseDurationSeconds": 15}

    async def request(self, method, path, body=None):
        if method == "PUT":
            self.spec = body["spec"]
        elif self.spec["holderIdentity"] == "first":
            self.spec["renewTime"] = min(self.clock[0], self.killed) // 2
        return {"spec": dict(self.spec)}


@pytest.mark.parametrize("killed", [20.0, 20.7, 21.5])
def test_a_lease_is_taken_over_as_soon_as_it_has_run_out(monkeypatch, killed):
    clock, begun = [0.0], asyncio.sleep

    async def sleep(seconds):
        clock[0] += seconds
        await begun(0)

    monkeypatch.setattr(lease, "monotonic", lambda: clock[0])
    monkeypatch.setattr(lease.asyncio, "sleep", sleep)
    api = Api(clock, killed)
    asyncio.run(Lease(api, "x", "lease", "second", print).acquire())
    assert api.spec["holderIdentity"] == "second"
    # The last renewal was seen at 20; a look each 2 seconds would take it over at 36.
    assert clock[0] == pytest.approx(35.0)
