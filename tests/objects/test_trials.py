"""Trials of all parts: what happens inside is undone at their end."""

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from hivecore._trial import Transaction
from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.errors import StaleDecisionError
from hivecore.queues import QueuedJob, TenantQueues
from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.topology import NetworkTopology, TopologyRequest


@dataclass
class Part:
    """An object that has room for two requests of 8 GPUs, and how it is asked for GPUs."""

    state: Any
    request: Any

    def place(self, name, gpus=8):
        self.state.commit(self.state.schedule(self.request(name, gpus)))

    def release(self, name):
        self.state.release(name)

    def has(self, name):
        return name in self.state.owners


def cells():
    nodes = Chain(["gpu", "node"], fanouts=[8], roots=2)
    cluster = CellCluster(ClusterSpec({"H100": nodes}, {"a": {"H100": {"node": 2}}}))
    part = Part(cluster, lambda name, gpus: AffinityGroup(name, "a", [(1, gpus)]))
    part.has = cluster.__contains__
    return part


def devices():
    cluster = DeviceCluster({f"n{i}": NodeDevices.uniform(8, nics=4) for i in range(2)})
    part = Part(cluster, lambda name, gpus: DeviceRequest(name, gpus=gpus))
    part.has = cluster.__contains__
    return part


def quotas():
    tree = QuotaTree([Quota("a", max={"gpu": 16})], total={"gpu": 16})
    return Part(tree, lambda name, gpus: QuotaRequest(name, "a", {"gpu": gpus}))


def network():
    network = NetworkTopology(["rack"], {"n0": {"rack": "r0"}, "n1": {"rack": "r1"}})
    network.set_slots([8, 8])
    return Part(network, TopologyRequest)


class Queues(Part):
    """Queues start nothing: a job that is placed waits."""

    def place(self, name, gpus=8):
        self.state.push(self.request(name, gpus), 0)

    def release(self, name):
        self.state.remove(name)

    def has(self, name):
        return name in self.state


def queues():
    return Queues(TenantQueues(), lambda name, gpus: QueuedJob(name, "a", gpus))


PLACING = (cells, devices, quotas, network)


@pytest.fixture(params=[*PLACING, queues])
def part(request):
    return request.param()


@pytest.fixture
def cluster():
    return cells().state


def place(cluster, name, leaves=8):
    cluster.commit(cluster.schedule(AffinityGroup(name, "a", [(1, leaves)])))


@pytest.mark.parametrize("undoing", [lambda state: state.trial(), Transaction])
def test_an_exception_inside_a_trial_or_transaction_undoes_it_and_passes_on(part, undoing):
    part.place("first")
    before = part.state.to_bytes()
    with pytest.raises(ZeroDivisionError), undoing(part.state):
        part.release("first")
        part.place("second")
        raise ZeroDivisionError
    assert part.state.to_bytes() == before
    part.state.check()


def test_trials_nest(part):
    part.place("first")
    with part.state.trial():
        part.place("second", 4)
        outer = part.state.to_bytes()
        with part.state.trial():
            part.release("second")
            part.place("third", 4)
            part.state.check()
        assert part.state.to_bytes() == outer
        part.state.check()
    assert part.has("first")
    assert not part.has("second") and not part.has("third")


@pytest.mark.parametrize(
    "copied",
    [lambda state: state.copy(), copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_taken_in_a_trial_stays_as_it_is(part, copied):
    part.place("first")
    with part.state.trial():
        part.place("second")
        with part.state.trial():
            part.release("second")
            part.place("third")
            branch, inside = copied(part.state), part.state.to_bytes()
    assert branch.to_bytes() == inside
    branch.check()
    twin = type(part)(branch, part.request)
    twin.release("first")
    branch.check()
    assert not part.has("second")
    with branch.trial():
        twin.release("third")
    branch.check()


def test_trials_end_in_the_reverse_order_of_their_beginning(part):
    outer, inner = part.state.trial(), part.state.trial()
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(RuntimeError, match="before"):
        outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    outer.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="not under way"):
        outer.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="once"):
        outer.__enter__()
    part.place("after")
    part.state.check()


# --- transactions


def test_a_transaction_that_ends_keeps_its_changes(part):
    part.place("first")
    with Transaction(part.state):
        part.release("first")
        part.place("second")
    assert part.has("second") and not part.has("first")
    part.state.check()
    with part.state.trial():
        part.release("second")
    assert part.has("second")
    part.release("second")
    part.place("third")
    part.state.check()


def test_a_transaction_in_a_trial_is_undone_with_it(part):
    part.place("first")
    before = part.state.to_bytes()
    with part.state.trial():
        part.place("second", 4)
        with Transaction(part.state):
            part.release("first")
            with part.state.trial():
                part.release("second")
            part.place("third", 4)
        assert part.has("third") and not part.has("first")
        part.state.check()
        part.place("fourth", 4)
    assert part.state.to_bytes() == before
    part.state.check()


# --- decisions


@pytest.mark.parametrize("make", [cells, devices, network])
def test_a_decision_from_before_a_trial_is_as_fresh_after_it(make):
    part = make()
    part.place("first")
    decision = part.state.schedule(part.request("late", 8))
    with part.state.trial():
        part.state.commit(decision)
        part.state.release("first")
    part.state.commit(decision)
    with pytest.raises(StaleDecisionError):
        part.state.commit(decision)


@pytest.mark.parametrize("make", [cells, devices, network])
def test_a_decision_on_what_was_released_in_a_trial_is_stale_after_it(make):
    part = make()
    part.place("first")
    part.place("second")
    with part.state.trial():
        part.state.release("first")
        decision = part.state.schedule(part.request("late", 8))
    before = part.state.to_bytes()
    with pytest.raises(StaleDecisionError):
        part.state.commit(decision)
    assert part.state.to_bytes() == before


# --- cells


def test_a_trial_keeps_the_order_of_groups(cluster):
    for name in "cab":
        place(cluster, name, 4)
    with cluster.trial():
        cluster.release("a")
        cluster.rename("c", "z")
        place(cluster, "a", 4)
        assert cluster.groups() == ("b", "z", "a")
    assert cluster.groups() == ("c", "a", "b")


def test_a_decision_of_a_trial_cannot_be_mistaken_for_one_of_a_later_group(cluster):
    """A lazy group that is downgraded in the trial, and another one later with its number."""
    lazy = [AffinityGroup(n, "a", [(2, 8)], lazy_preemption=True) for n in ("tried", "real")]
    with cluster.trial():
        cluster.commit(cluster.schedule(lazy[0]))
        wish = cluster.schedule(AffinityGroup("wish", "a", [(1, 8)], priority=5))
    cluster.commit(cluster.schedule(lazy[1]))
    before = cluster.to_bytes()
    with pytest.raises(StaleDecisionError):
        (cluster.commit if wish.outcome == "bind" else cluster.reserve)(wish)
    assert cluster.to_bytes() == before
