"""Trials: what happens inside is undone at their end."""

import pytest

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
from hivecore.errors import StaleDecisionError


@pytest.fixture
def cluster():
    nodes = Chain(["gpu", "node"], fanouts=[8], roots=2)
    return CellCluster(ClusterSpec({"H100": nodes}, {"a": {"H100": {"node": 2}}}))


def place(cluster, name, leaves=8):
    cluster.commit(cluster.schedule(AffinityGroup(name, "a", [(1, leaves)])))


def test_an_exception_inside_a_trial_undoes_it_and_passes_on(cluster):
    place(cluster, "kept")
    before = cluster.to_bytes()
    with pytest.raises(ZeroDivisionError), cluster.trial():
        cluster.release("kept")
        raise ZeroDivisionError
    assert cluster.to_bytes() == before


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


def test_a_copy_taken_in_a_trial_stays_as_it_is(cluster):
    place(cluster, "first")
    with cluster.trial():
        place(cluster, "second")
        branch = cluster.copy()
    assert branch.groups() == ("first", "second")
    branch.check()
    branch.release("first")
    branch.check()
    assert cluster.groups() == ("first",)


def test_trials_end_in_the_reverse_order_of_their_beginning(cluster):
    outer, inner = cluster.trial(), cluster.trial()
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
    place(cluster, "after")
    cluster.check()
