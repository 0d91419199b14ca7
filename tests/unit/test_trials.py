"""Trials: what happens inside is undone at their end."""

import copy
import pickle

import pytest

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
from hivecore.errors import StaleDecisionError
from hivecore.quotas import Quota, QuotaRequest, QuotaTree


@pytest.fixture
def cluster():
    nodes = Chain(["gpu", "node"], fanouts=[8], roots=2)
    return CellCluster(ClusterSpec({"H100": nodes}, {"a": {"H100": {"node": 2}}}))


@pytest.fixture
def tree():
    return QuotaTree([Quota("a", max={"gpu": 16})], total={"gpu": 16})


@pytest.fixture(params=["cluster", "tree"])
def part(request):
    return request.getfixturevalue(request.param)


def place(part, name, leaves=8):
    if isinstance(part, CellCluster):
        request = AffinityGroup(name, "a", [(1, leaves)])
    else:
        request = QuotaRequest(name, "a", {"gpu": leaves})
    part.commit(part.schedule(request))


def owners(part):
    return part.groups() if isinstance(part, CellCluster) else part.owners


def test_an_exception_inside_a_trial_undoes_it_and_passes_on(part):
    place(part, "kept")
    before = part.to_bytes()
    with pytest.raises(ZeroDivisionError), part.trial():
        part.release("kept")
        raise ZeroDivisionError
    assert part.to_bytes() == before


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


BRANCHES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda part: pickle.loads(pickle.dumps(part)),
}


@pytest.mark.parametrize("branched", BRANCHES.values(), ids=BRANCHES)
def test_a_copy_taken_in_a_trial_stays_as_it_is(part, branched):
    place(part, "first")
    with part.trial():
        place(part, "second")
        branch = branched(part)
    assert owners(branch) == ("first", "second")
    branch.check()
    branch.release("first")
    branch.check()
    assert owners(part) == ("first",)


def test_trials_end_in_the_reverse_order_of_their_beginning(part):
    outer, inner = part.trial(), part.trial()
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
    place(part, "after")
    part.check()
