"""What an owner has in a part goes to another name: nothing else changes."""

import copy
import pickle

import pytest

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.topology import NetworkTopology, TopologyRequest


def cells():
    chain = Chain(["gpu", "node"], fanouts=[4], roots=1)
    node = CellCluster(ClusterSpec({"c": chain}, {"A": {"c": {"node": 1}}}))
    return node, lambda name: AffinityGroup(name, "A", [(1, 2)], priority=3)


def network():
    topology = NetworkTopology(["rack"], {"a": {"rack": "r"}, "b": {"rack": "r"}})
    topology.set_slots([2, 2])
    return topology, lambda name: TopologyRequest(name, 2)


def machines():
    node = DeviceCluster({"n0": NodeDevices.uniform(gpus=4)})
    return node, lambda name: DeviceRequest(name, gpus=2, priority=3)


PARTS = pytest.mark.parametrize("make", [cells, network, machines])
HOW = [lambda part: part, copy.copy, lambda part: pickle.loads(pickle.dumps(part))]


@PARTS
@pytest.mark.parametrize("how", HOW, ids=["itself", "copy", "pickle"])
def test_a_renamed_owner_has_what_it_had_and_its_old_name_is_free(make, how):
    part, request = make()
    part.commit(part.schedule(request("old")))
    other, _ = make()
    other.commit(other.schedule(request("new")))
    part.rename("old", "new")
    part = how(part)
    part.check()
    assert part.to_bytes() == other.to_bytes()
    with pytest.raises(KeyError, match="old"):
        part.release("old")
    part.commit(part.schedule(request("old")))
    assert not part.fits(request("third"))
    part.release("new")
    part.release("old")
    part.check()
    assert part.to_bytes() == make()[0].to_bytes()


@PARTS
def test_a_branch_keeps_the_old_name(make):
    part, request = make()
    part.commit(part.schedule(request("old")))
    branch = part.copy()
    part.rename("old", "new")
    branch.check()
    branch.release("old")
    part.release("new")


@PARTS
@pytest.mark.parametrize(
    ("name", "new", "error"),
    [
        ("unknown", "new", KeyError),
        ("old", "other", ValueError),
        ("old", "old", ValueError),
        ("old", "", ValueError),
        ("old", 7, TypeError),
    ],
)
def test_names_that_do_not_do_change_nothing(make, name, new, error):
    part, request = make()
    for owner in ("old", "other"):
        part.commit(part.schedule(request(owner)))
    before = part.to_bytes()
    with pytest.raises(error):
        part.rename(name, new)
    assert part.to_bytes() == before
    part.check()


def test_a_group_that_has_downgraded_others_is_known_to_them_by_the_new_name():
    chain = Chain(["gpu", "node"], fanouts=[4], roots=2)
    cluster = CellCluster(ClusterSpec({"c": chain}, {"A": {"c": {"node": 1}}}))
    cluster.commit(cluster.schedule(AffinityGroup("weak", "A", [(1, 4)], lazy_preemption=True)))
    cluster.commit(cluster.schedule(AffinityGroup("strong", "A", [(1, 4)], priority=5)))
    assert cluster.group("weak").lazy_preempted_by == "strong"
    cluster.rename("strong", "heir")
    assert cluster.groups() == ("weak", "heir")
    assert cluster.group("weak").lazy_preempted_by == "heir"
    assert CellCluster.from_bytes(cluster.to_bytes()).to_bytes() == cluster.to_bytes()


def test_a_user_of_a_reservation_is_renamed_and_the_reservation_is_not():
    cluster, request = machines()
    cluster.reserve(cluster.schedule(DeviceRequest("held", gpus=4)))
    cluster.commit(cluster.schedule(request("old"), reservations=["held"]))
    cluster.rename("old", "new")
    assert cluster.reservation("held").users == ("new",)
    with pytest.raises(ValueError, match="keeps its name"):
        cluster.rename("held", "kept")
    cluster.release("new")
    assert cluster.reservation("held").users == ()
    cluster.check()


def quota_tree():
    tree = QuotaTree([Quota("a", max={"gpu": 8}), Quota("b", max={"gpu": 8})], total={"gpu": 8})
    tree.submit_many(QuotaRequest(name, "a", {"gpu": 6}) for name in ("one", "two"))
    tree.commit(tree.schedule("one"))
    return tree


@pytest.mark.parametrize("how", HOW, ids=["itself", "copy", "pickle"])
def test_owners_that_ask_for_the_same_exchange_what_they_have(how):
    tree = quota_tree()
    tree.exchange("one", "two")
    tree = how(tree)
    tree.check()
    assert (tree.members("one"), tree.members("two")) == (0, 1)
    assert tree.request("one").name == "one"
    assert tree.status("a").used == {"gpu": 6} and tree.status("a").request == {"gpu": 12}
    tree.release("two")
    tree.commit(tree.schedule("one"))
    tree.release("one")
    assert tree.owners == () and tree.status("a").used == {"gpu": 0}


def test_an_evicted_owner_exchanges_that_it_may_not_borrow_either():
    quotas = [Quota("a", max={"gpu": 8}), Quota("b", max={"gpu": 8}, min={"gpu": 8})]
    tree = QuotaTree(quotas, total={"gpu": 8}, limit="max")
    tree.submit_many(QuotaRequest(name, "a", {"gpu": 6}) for name in ("one", "two"))
    tree.submit(QuotaRequest("entitled", "b", {"gpu": 8}))
    tree.commit(tree.schedule("one"))
    tree.evict("one")
    assert tree.schedule("one").refusal.code == "evicted" and tree.fits("two")
    tree.exchange("one", "two")
    assert tree.schedule("two").refusal.code == "evicted" and tree.fits("one")


def test_owners_that_differ_exchange_nothing():
    tree = quota_tree()
    tree.submit(QuotaRequest("more", "a", {"gpu": 7}))
    tree.submit(QuotaRequest("other", "b", {"gpu": 6}))
    tree.submit(QuotaRequest("urgent", "a", {"gpu": 6}, priority=1))
    before = tree.to_bytes()
    for name in ("more", "other", "urgent"):
        with pytest.raises(ValueError, match="something else"):
            tree.exchange("one", name)
    with pytest.raises(KeyError, match="unknown"):
        tree.exchange("one", "unknown")
    assert tree.to_bytes() == before
