"""Kinds that differ in their quota alone share what other parts read of them."""

import random

import pytest
from profiles import seeds
from scheduler.lives import gpu_quotas
from scheduler.test_mixed_histories import MixedHistory

from hivecore._trial import UndoLog
from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.scheduler import Job, Reject, Role, Scheduler, Start
from hivecore.scheduler.ledger.kinds import Kinds
from hivecore.scheduler.stages.units import _BUILT, Kind

NICS = DeviceRequest("any", gpus=2, nics=1, joint=("gpu", "rdma"))


def test_kinds_of_two_quotas_request_the_same_of_all_other_parts():
    kinds = Kinds(UndoLog())
    terms = {"priority": 3, "preemptible": False}
    jobs = [Job(of, "t", [Role("w", 2, devices=NICS)], quota=of, **terms) for of in ("a", "b")]
    first, second = map(kinds.of, jobs)
    assert second.shape is first
    assert kinds.alone(second).shape is first
    assert first.number != second.number
    for name in _BUILT.keys() - {"quota_request"}:
        assert getattr(second, name) is getattr(first, name)
    alone = Kind(9, jobs[1], list(second.sizes))
    assert second.quota_request == kinds.alone(second).quota_request == alone.quota_request
    assert (second.gpus, second.amounts) == (alone.gpus, alone.amounts)


def test_a_kind_of_a_trial_is_forgotten_with_it():
    log = UndoLog()
    kinds = Kinds(log)
    log.mark()
    kinds.of(Job("a", "t", 1, quota="a"))
    log.rewind()
    assert kinds.of(Job("b", "t", 1, quota="b")).shape is None


@pytest.mark.parametrize("order", [("large", "small", "none"), ("none", "small", "large")])
def test_each_quota_is_asked_whether_it_can_ever_admit_a_job(order):
    cells = CellCluster(
        ClusterSpec({"A": Chain(["gpu", "node"], [4], 2)}, {"t": {"A": {"node": 2}}})
    )
    machine = NodeDevices.uniform(gpus=4)
    scheduler = Scheduler(
        quotas=gpu_quotas(8, large=(8, 8), small=(3, 3), none=8),
        cells=cells,
        devices=DeviceCluster(dict.fromkeys(cells.nodes, machine)),
    )
    for quota in order:
        scheduler.submit(Job(quota, "t", 4, quota=quota, preemptible=False), 0.0)
    actions = {action.job: action for action in scheduler.decide(0.0)}
    assert isinstance(actions.pop("large"), Start)
    assert all(isinstance(action, Reject) for action in actions.values())
    assert {name: action.reason for name, action in actions.items()} == {
        "small": "asks for 4 of 'gpu', and max of 'small' is 3",
        "none": "asks for 4 of 'gpu', and min of 'none' is 0",
    }
    # too large for any node, whatever its quota
    for quota in order:
        scheduler.submit(Job(f"{quota} again", "t", 5, quota=quota), 1.0)
    assert [type(action) for action in scheduler.decide(1.0)] == [Reject] * 3
    scheduler.check()


class AlikeHistory(MixedHistory):
    """Half of the jobs are like an earlier one, under any quota."""

    def __init__(self, parts, seed, path):
        self.alike, self.earlier = random.Random(seed), []
        super().__init__(parts, seed, path)

    def varied(self, job):
        if self.earlier and self.alike.random() < 0.5:
            earlier, quota = self.alike.choice(self.earlier), self.alike.choice("ab")
            return earlier.replace(name=job.name, quota=quota)
        job = super().varied(job)
        if not (job.after or job.together):
            self.earlier.append(job)
        return job


@pytest.mark.parametrize("parts", ["quotas", "quotas, topology and devices", "all with lending"])
def test_histories_are_the_same_whether_or_not_kinds_share(parts, tmp_path, monkeypatch):
    new, shared = Kind.__init__, []

    def without(self, *arguments, shape=None, **more):
        new(self, *arguments, **more)

    def noted(self, *arguments, shape=None, **more):
        shared.append(shape)
        new(self, *arguments, shape=shape, **more)

    for seed in seeds(2):
        logs, states = [], []
        for init in (noted, without):
            path = tmp_path / f"{seed}-{init.__name__}"
            with monkeypatch.context() as patched:
                patched.setattr(Kind, "__init__", init)
                history = AlikeHistory(parts, seed, path)
                history.live(40)
                history.scheduler.close()
            logs.append(path.read_bytes())
            states.append(history.scheduler.to_bytes())
        assert states[0] == states[1], f"seed {seed}"
        assert logs[0] == logs[1], f"seed {seed}"
    assert any(shared)
