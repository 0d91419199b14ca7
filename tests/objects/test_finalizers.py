"""A finalizer that uses an object in the midst of another call on it, by the same thread.

CPython 3.11 can collect garbage wherever a container is made, later ones only between two
instructions of Python code.
"""

import gc
from contextlib import suppress

import pytest
from cells.affinity_groups import schedule_and_reserve

from hivecore.caching import UniformCache
from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
from hivecore.errors import StaleDecisionError

SPEC = ClusterSpec({"c": Chain(["gpu", "node"], fanouts=[8], roots=80)}, {"A": {"c": {"node": 80}}})


@pytest.fixture(autouse=True, scope="module")
def few_objects():
    """What is there before the tests is not looked through each time that one collects."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Cycle:
    def __init__(self, finalizer):
        self.finalizer, self.cycle = finalizer, self

    def __del__(self):
        self.finalizer()


def interrupted(call, finalizer, allocations):
    """What the call answers if the finalizer runs after so many new containers."""
    before = gc.get_threshold()
    gc.collect()
    gc.disable()
    Cycle(finalizer)
    gc.set_threshold(allocations, 10**6, 10**6)
    gc.enable()
    try:
        return call()
    finally:
        gc.set_threshold(*before)
        gc.collect()


def commit(cluster, name, pods):
    cluster.commit(cluster.schedule(AffinityGroup(name, "A", [(pods, 8)])))


def other_group(cluster):
    cluster.release("first")
    commit(cluster, "other", 60)


@pytest.mark.parametrize("allocations", range(1, 90, 8))
def test_a_group_is_described_as_it_was_when_another_takes_its_place_meanwhile(allocations):
    cluster = CellCluster(SPEC)
    commit(cluster, "first", 20)
    expected = cluster.group("first")
    books = cluster._books
    handle = books.live["first"].handle
    result = interrupted(
        lambda: books.core.group(handle), lambda: other_group(cluster), allocations
    )
    assert [len(pod) for pod in result[4]] == [8] * len(expected.placement)
    assert result[4] == [list(range(8 * n, 8 * n + 8)) for n in range(20)]


@pytest.mark.parametrize("allocations", range(1, 40))
def test_a_commit_happens_wholly_or_not_though_others_go_meanwhile(allocations):
    cluster = CellCluster(SPEC)
    cluster.commit(cluster.schedule(AffinityGroup("low", "A", [(80, 8)], lazy_preemption=True)))
    decision = cluster.schedule(AffinityGroup("high", "A", [(1, 8)], priority=3))
    assert decision.victims == ("low",)
    schedule_and_reserve(cluster, AffinityGroup("high", "A", [(1, 8)], priority=3))
    higher = AffinityGroup("higher", "A", [(1, 8)], priority=9)

    def reserve():
        return schedule_and_reserve(cluster, higher).outcome

    with suppress(StaleDecisionError):
        assert interrupted(reserve, lambda: cluster.release("high"), allocations) == "preempt"
    cluster.check()
    assert cluster.groups() in (("low",), ("low", "higher"))


@pytest.mark.parametrize("allocations", range(1, 60, 12))
def test_copies_states_and_reports_are_of_one_moment(allocations):
    for look in (
        lambda cluster: cluster.copy().check(),
        lambda cluster: CellCluster.from_bytes(cluster.to_bytes()).check(),
        lambda cluster: cluster.status(),
    ):
        cluster = CellCluster(SPEC)
        commit(cluster, "first", 20)
        commit(cluster, "second", 1)
        interrupted(lambda: look(cluster), lambda: other_group(cluster), allocations)  # noqa: B023
        cluster.check()


@pytest.mark.parametrize("allocations", range(1, 6))
def test_statistics_are_those_of_a_dataset_that_is_removed_meanwhile(allocations):
    cache = UniformCache(capacity=100)
    cache.add_dataset("first", 50, 1, quota=40)

    def replace():
        cache.remove_dataset("first")
        cache.add_dataset("second", 7, 1, quota=9)

    result = interrupted(lambda: cache.statistics("first"), replace, allocations)
    assert (result["items"], result["quota"]) == (50, 40)
