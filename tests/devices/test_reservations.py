"""Reservations: devices that an owner holds for others."""

import pickle

import numpy as np
import pytest

from hivecore.devices import (
    Device,
    DeviceAllocation,
    DeviceCluster,
    DeviceRequest,
    NodeDevices,
)
from hivecore.errors import StaleDecisionError

NODE = NodeDevices.uniform(gpus=8, nics=4, sockets=2, switches=4)


def minors(decision):
    return [allocation.minor for allocation in decision.placement if allocation.type == "gpu"]


def reserved(*, restricted=False, gpus=2, nodes=("a", "b")):
    """A cluster where "held" holds GPUs of "b"."""
    cluster = DeviceCluster(dict.fromkeys(nodes, NODE))
    decision = cluster.schedule(DeviceRequest("held", gpus=gpus), nodes=nodes[-1:])
    cluster.reserve(decision, restricted=restricted)
    return cluster


def come(cluster, name="pod", *, gpus=1, reserved="first", **wishes):
    decision = cluster.schedule(
        DeviceRequest(name, gpus=gpus, **wishes), reservations=["held"], reserved=reserved
    )
    if decision.outcome == "bind":
        cluster.commit(decision)
    return decision


def test_users_stay_when_their_reservation_ends():
    cluster = reserved()
    come(cluster)
    cluster.release("held")
    assert cluster.owners("b") == ("pod",)
    assert cluster.reservations == ()
    cluster.release("pod")  # and nothing goes back to anybody
    assert cluster.owners("b") == ()


def test_others_do_not_get_what_is_held():
    cluster = reserved(gpus=8, nodes=("b",))
    other = DeviceRequest("other", gpus=1)
    assert not cluster.fits(other)
    assert cluster.schedule(other, reservations=["held"]).outcome == "bind"


def test_users_get_others_beside_unless_it_is_restricted():
    cluster = reserved(nodes=("b",))
    assert sorted(minors(come(cluster, gpus=4, reserved="only"))) == [0, 1, 2, 3]
    cluster = reserved(nodes=("b",), restricted=True)
    decision = come(cluster, gpus=4, reserved="only")
    assert decision.counts == (("reservation", 1),)
    assert "it may only use reservations" in decision.reason


def test_a_restricted_reservation_gives_no_more_of_a_device_than_it_has_left():
    cluster = DeviceCluster({"b": NodeDevices.uniform(gpus=1, gpu_memory=1000)})
    half = DeviceRequest("held", gpus=1, core=50, memory=500)
    cluster.reserve(cluster.schedule(half), restricted=True)
    assert come(cluster, core=50, memory=600, reserved="only").outcome == "wait"
    assert come(cluster, core=20, memory=400, reserved="only").outcome == "bind"
    assert dict(cluster.allocations("held")[0].amounts) == {"core": 30, "memory": 100}


@pytest.mark.parametrize("when", ["first", "only", "last"])
def test_reservations_are_used_first_or_only_or_last(when):
    decision = come(reserved(), reserved=when)
    assert decision.reservation == ("" if when == "last" else "held")


def test_reservations_come_last_only_where_nothing_else_serves():
    cluster = reserved(gpus=4, nodes=("b",))
    assert minors(come(cluster, gpus=4, reserved="last")) == [4, 5, 6, 7]
    decision = come(cluster, "late", gpus=4, reserved="last")
    assert (decision.reservation, minors(decision)) == ("held", [0, 1, 2, 3])


def test_a_follower_of_an_owner_has_to_have_all_of_its_devices():
    cluster = DeviceCluster({"b": NODE})
    cluster.allocate(DeviceRequest("now", gpus=2), "b")
    decision = cluster.reserve_after(DeviceRequest("held", gpus=1), "now")
    assert decision.counts == (("successor", 1),)
    assert cluster.reservations == ()


def test_users_of_reservations_are_no_victims():
    cluster = reserved(gpus=8, nodes=("b",))
    come(cluster, gpus=8)
    urgent = DeviceRequest("urgent", gpus=8, priority=9)
    assert cluster.schedule(urgent, preemptible=["pod"]).outcome == "wait"
    cluster.release("held")
    assert cluster.schedule(urgent, preemptible=["pod"]).victims == ("pod",)


def test_a_decision_is_stale_when_its_reservation_is_gone_or_used():
    for spoil in (lambda item: item.release("held"), lambda item: come(item, "other", gpus=2)):
        cluster = reserved(restricted=True, nodes=("b",))
        request = DeviceRequest("pod", gpus=2)
        decision = cluster.schedule(request, reservations=["held"], reserved="only")
        spoil(cluster)
        before = cluster.to_bytes()
        with pytest.raises(StaleDecisionError, match="'held'"):
            cluster.commit(decision)
        assert cluster.to_bytes() == before


def test_a_stale_user_leaves_the_reservation_as_it_was():
    cluster = reserved(nodes=("b",))
    decision = cluster.schedule(DeviceRequest("pod", gpus=8), reservations=["held"])
    cluster.allocate(DeviceRequest("other", gpus=1), "b")
    before = cluster.to_bytes()
    with pytest.raises(StaleDecisionError, match="taken by now"):
        cluster.commit(decision)
    assert cluster.to_bytes() == before


def test_decisions_keep_their_reservation_when_they_are_pickled():
    cluster = reserved()
    decision = cluster.schedule(DeviceRequest("pod", gpus=1), reservations=["held"])
    branch = cluster.copy()
    branch.commit(pickle.loads(pickle.dumps(decision)))
    assert branch.reservation("held").users == ("pod",)
    assert cluster.reservation("held").users == ()


def test_unknown_reservations_are_refused():
    cluster = reserved()
    request = DeviceRequest("pod", gpus=1)
    for ask in (cluster.schedule, cluster.filter):
        with pytest.raises(KeyError, match="reservations: 'else' is none"):
            ask(request, reservations=["else"])
        with pytest.raises(ValueError, match="reserved must be"):
            ask(request, reservations=["held"], reserved="never")
    with pytest.raises(KeyError, match="is no reservation"):
        cluster.reservation("pod")


def test_wrong_uses_are_refused_and_change_nothing():
    cluster = reserved()
    come(cluster)
    request = DeviceRequest("next", gpus=1)
    before = cluster.to_bytes()
    with pytest.raises(ValueError, match="is through reservation 'held'"):
        cluster.reserve(cluster.schedule(request, reservations=["held"]))
    with pytest.raises(ValueError, match="preemptible: not together"):
        cluster.schedule(request, preemptible=["pod"], reservations=["held"], reserved="only")
    for owner in ("held", "pod"):
        with pytest.raises(ValueError, match="is a reservation, or uses one"):
            cluster.reserve_after(request, owner)
    with pytest.raises(ValueError, match="has devices already"):
        cluster.reserve_after(DeviceRequest("pod", gpus=1), "held")
    with pytest.raises(KeyError, match="owner='else': has no devices"):
        cluster.reserve_after(request, "else")
    with pytest.raises(TypeError, match="decision must be"):
        cluster.reserve("held")
    with pytest.raises(TypeError, match="restricted must be"):
        cluster.reserve(cluster.schedule(request), restricted="no")
    assert cluster.to_bytes() == before


def test_records_that_contradict_each_other_are_refused():
    cluster = reserved()
    come(cluster)
    held, mine = cluster.reservation("held").held, cluster.allocations("pod")
    before = cluster.to_bytes()
    for wrong in (
        lambda: cluster.recover_reservation("held", "b", held, restricted=True),
        lambda: cluster.recover_reservation("held", "a", held),
        lambda: cluster.recover_reservation("pod", "b", mine),
        lambda: cluster.recover("held", "b", held),
        lambda: cluster.recover("pod", "b", mine),
        lambda: cluster.recover("new", "a", mine, reservation="held"),
        lambda: cluster.recover("new", "b", mine, reservation="pod"),
    ):
        with pytest.raises(ValueError, match=r"name=|reservation="):
            wrong()
    assert cluster.to_bytes() == before
    late = DeviceCluster({"a": NODE, "b": NODE})
    late.recover("pod", "a", mine, reservation="held")
    with pytest.raises(ValueError, match="'pod' uses 'held' on another one"):
        late.recover_reservation("held", "b", held)
    assert late.reservations == ()


def test_an_owner_that_waits_for_a_reservation_of_the_same_name_is_no_user_of_a_new_one():
    cluster = DeviceCluster({"b": NODE})
    gpu = DeviceAllocation("gpu", 0, {"core": 100, "memory_ratio": 100})
    cluster.recover("pod", "b", [gpu], reservation="held")
    assert cluster.schedule(DeviceRequest("urgent", gpus=8), preemptible=["pod"]).victims == (
        "pod",
    )
    cluster.reserve(cluster.schedule(DeviceRequest("held", gpus=2)))
    assert cluster.reservation("held").users == ()
    cluster.release("pod")
    assert len(cluster.allocations("held")) == 2


@pytest.mark.parametrize("when", ["first", "only", "last"])
def test_a_reservation_gives_no_hope_to_what_its_node_could_never_serve(when):
    cluster = reserved()
    feasibility = cluster.filter(DeviceRequest("pod", gpus=9), reservations=["held"], reserved=when)
    assert feasibility.resolvable.tolist() == [False, False]


def test_reservations_that_are_none_are_refused_even_if_they_come_last():
    cluster = reserved()
    request = DeviceRequest("pod", gpus=1)
    with pytest.raises(KeyError, match="reservations: 'else' is none"):
        cluster.schedule(request, reservations=["else"], reserved="last")


@pytest.mark.parametrize("wrong", [None, 0, False, "", "held", b"", [None], [[]], [b"held"]])
def test_reservations_and_owners_are_named_by_sequences_of_strings(wrong):
    cluster = reserved()
    request = DeviceRequest("pod", gpus=1)
    for argument, ask in (
        ("reservations", cluster.schedule),
        ("reservations", cluster.filter),
        ("preemptible", cluster.schedule),
    ):
        with pytest.raises(TypeError, match=f"{argument} must be a"):
            ask(request, **{argument: wrong})
    with pytest.raises(TypeError, match="reservations must be a"):
        cluster.schedule_many([], reservations=wrong)


@pytest.mark.parametrize("wrong", [[], {}, set()])
def test_an_owner_is_named_by_a_string(wrong):
    cluster = reserved()
    before = cluster.to_bytes()
    for ask in (cluster.release, cluster.node_of, cluster.allocations, cluster.reservation):
        with pytest.raises(TypeError, match="name must be a string"):
            ask(wrong)
    with pytest.raises(TypeError, match="owner must be a string"):
        cluster.reserve_after(DeviceRequest("pod", gpus=1), wrong)
    assert cluster.to_bytes() == before


def test_reservations_may_be_named_by_an_array():
    cluster = reserved()
    names = np.array(["held", "held"])
    decision = cluster.schedule(DeviceRequest("pod", gpus=1), reservations=names, reserved="only")
    assert type(decision.reservation) is str


def test_no_owner_uses_itself_as_a_reservation():
    cluster = DeviceCluster({"b": NODE})
    with pytest.raises(ValueError, match="reservation='pod': is the owner itself"):
        cluster.recover("pod", "b", [], reservation="pod")
    assert len(cluster) == 0


def test_what_is_held_in_percent_is_counted_in_bytes_as_soon_as_the_card_tells_them():
    amounts = {"core": 100, "memory_ratio": 100}
    cluster = DeviceCluster({"b": NodeDevices([Device("gpu", 0, amounts)])})
    cluster.reserve(cluster.schedule(DeviceRequest("held", gpus=1)), restricted=True)
    half = DeviceRequest("half", gpus=1, memory_percent=50)
    cluster.commit(cluster.schedule(half, reservations=["held"]))
    stated = NodeDevices([Device("gpu", 0, amounts | {"memory": 1001})])
    cluster.set_inventory("b", stated)
    result = cluster.reservation("held")
    assert dict(result.held[0].amounts) == {"core": 100, "memory": 1001}
    assert dict(result.left[0].amounts) == {"core": 100, "memory": 501}
    assert dict(cluster.allocations("half")[0].amounts) == {"memory": 500}
    assert not cluster.fits(DeviceRequest("stranger", gpus=1, memory=1))
    assert DeviceCluster.from_bytes(cluster.to_bytes()).reservation("held") == result
    cluster.check()


def test_an_owner_that_waits_for_a_reservation_may_leave_before_it_comes():
    cluster = DeviceCluster({"b": NODE})
    gpus = [DeviceAllocation("gpu", i, {"core": 100, "memory_ratio": 100}) for i in range(4)]
    for i, gpu in enumerate(gpus[:3]):
        cluster.recover(f"pod-{i}", "b", [gpu], reservation="held")
    branch = cluster.copy()
    cluster.release("pod-0")
    cluster.recover_reservation("held", "b", gpus)
    branch.recover_reservation("held", "b", gpus)
    assert cluster.reservation("held").users == ("pod-1", "pod-2")
    assert [allocation.minor for allocation in cluster.allocations("held")] == [0, 3]
    assert branch.reservation("held").users == ("pod-0", "pod-1", "pod-2")
    assert [allocation.minor for allocation in branch.allocations("held")] == [3]


def test_an_owner_that_waits_for_a_name_that_an_owner_has_may_be_followed():
    cluster = DeviceCluster({"b": NODE})
    gpu = DeviceAllocation("gpu", 0, {"core": 100, "memory_ratio": 100})
    cluster.recover("pod", "b", [gpu], reservation="held")
    cluster.allocate(DeviceRequest("held", gpus=1), "b")
    assert cluster.reserve_after(DeviceRequest("next", gpus=1), "pod").outcome == "bind"
    assert cluster.reservation("next").users == ("pod",)
    cluster.release("held")
    cluster.recover_reservation("held", "b", [])
    assert cluster.reservation("held").users == ()
    assert DeviceCluster.from_bytes(cluster.to_bytes()).to_bytes() == cluster.to_bytes()
