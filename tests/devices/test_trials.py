"""Trials of devices: what happens inside is undone at their end."""

import pytest

from hivecore import _devices
from hivecore.devices import (
    Device,
    DeviceAllocation,
    DeviceCluster,
    DeviceRequest,
    NodeDevices,
    Task,
    TaskMix,
)
from hivecore.errors import StaleDecisionError

HELD = [DeviceAllocation("gpu", 7, {"core": 50, "memory": 1 << 30})]


def commit_some(cluster):
    requests = [DeviceRequest(f"many{i}", gpus=1) for i in range(3)]
    cluster.commit_many(cluster.schedule_many(requests))


def commit_through(cluster):
    request = DeviceRequest("inner", gpus=1)
    cluster.commit(cluster.schedule(request, reservations=["held"], reserved="only"))


CHANGES = {
    "commit": lambda c: c.commit(c.schedule(DeviceRequest("new", gpus=2, priority=3))),
    "commit through a reservation": commit_through,
    "commit_many": commit_some,
    "allocate": lambda c: c.allocate(DeviceRequest("new", gpus=1), "n1"),
    "release": lambda c: c.release("late"),
    "release of a reservation": lambda c: c.release("held"),
    "release of a user": lambda c: c.release("user"),
    "rename": lambda c: c.rename("late", "renamed"),
    "rename of a user": lambda c: c.rename("user", "renamed"),
    "rename of a user of what is to come": lambda c: c.rename("early", "renamed"),
    "reserve": lambda c: c.reserve(c.schedule(DeviceRequest("tocome", gpus=1))),
    "reserve_after": lambda c: c.reserve_after(DeviceRequest("next", gpus=2), "late"),
    "recover": lambda c: c.recover("new", "n1", HELD, priority=-1),
    "recover of a user": lambda c: c.recover("new", "n0", HELD, reservation="held"),
    "recover_reservation": lambda c: c.recover_reservation("tocome", "n1", HELD),
    "set_health of a node": lambda c: c.set_health("n0", False),
    "set_health of a device": lambda c: c.set_health("n1", False, type="gpu", minor=3),
    "set_inventory": lambda c: c.set_inventory("n0", NodeDevices.uniform(2)),
    "add_node": lambda c: c.add_node("new", NodeDevices.uniform(16)),
    "add_node in a hole": lambda c: (c.remove_node("n1"), c.add_node("a", SMALL)),
    "remove_node": lambda c: c.remove_node("n0"),
}
SMALL = NodeDevices.uniform(2)


@pytest.fixture
def reserving():
    """Two nodes with an owner, a reservation with a user, and a user of what is yet to come."""
    uniform = NodeDevices.uniform(8, nics=4)
    cluster = DeviceCluster({"gone": SMALL, "n0": uniform, "n1": uniform}, policy="fgd")
    cluster.remove_node("gone")
    cluster.reserve(cluster.schedule(DeviceRequest("held", gpus=4), nodes=["n0"]), restricted=True)
    user = DeviceRequest("user", gpus=2, priority=1)
    cluster.commit(cluster.schedule(user, reservations=["held"]))
    cluster.allocate(DeviceRequest("late", gpus=1, priority=2), "n1")
    cluster.recover("early", "n1", HELD, reservation="tocome")
    return cluster


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_of_devices_is_undone(reserving, change):
    def observed():
        request = DeviceRequest("asked", gpus=2, nics=1)
        answers = reserving.filter(request)
        return (
            reserving.to_bytes(),
            reserving.nodes,
            [reserving.owners(node) for node in reserving.nodes],
            reserving.unhealthy_nodes(),
            [reserving.reservation(name) for name in reserving.reservations],
            reserving.fragmentation(),
            answers.nodes,
            answers.codes.tolist(),
            answers.scores.tolist(),
            reserving.explain(DeviceRequest("large", gpus=8)),
        )

    before = observed()
    for _ in range(2):
        with reserving.trial():
            change(reserving)
            assert reserving.to_bytes() != before[0]
            inside = reserving.copy()
            reserving.check()
        assert observed() == before
        reserving.check()
    change(reserving)
    assert reserving.to_bytes() == inside.to_bytes()


def test_a_decision_on_a_node_of_a_trial_is_stale_after_it(reserving):
    late = DeviceRequest("pod", gpus=2)
    with reserving.trial():
        reserving.add_node("new", SMALL)
        reserving.add_node("newer", SMALL)
        decisions = [reserving.schedule(late, nodes=[name]) for name in ("new", "newer")]
    for again in range(2):
        for decision in decisions:
            with pytest.raises(StaleDecisionError, match="is gone"):
                reserving.commit(decision)
        if not again:
            reserving.add_node("new", SMALL)
            reserving.add_node("newer", SMALL)


def test_nodes_that_a_trial_adds_are_gone_after_it(reserving):
    with reserving.trial():
        for i in range(40):
            reserving.add_node(f"m{i}", NodeDevices.uniform(16))
        large = DeviceRequest("large", gpus=16)
        assert reserving.schedule(large).outcome == "bind"
    decision = reserving.schedule(large)
    assert (decision.outcome, decision.impossible) == ("wait", True)
    assert decision.counts == (("too few", 2),)
    assert reserving.filter(large).nodes == ("n0", "n1")
    reserving.add_node("in the hole", SMALL)
    reserving.add_node("at the end", SMALL)
    assert reserving.nodes == ("in the hole", "n0", "n1", "at the end")


def cards(count, memory):
    return NodeDevices([Device("gpu", i, {"memory": memory}) for i in range(count)])


HUGE = cards(256, 1 << 47)  # the weights of a mix for it are less than 5 together


@pytest.mark.parametrize("count", [15, 16])
@pytest.mark.parametrize("asks", [False, True])
def test_cached_answers_forget_a_node_that_a_trial_added(count, asks):
    cluster = DeviceCluster({f"n{i}": SMALL for i in range(count)})
    large = DeviceRequest("large", gpus=16)
    assert cluster.schedule(large).outcome == "wait"
    with cluster.trial():
        cluster.add_node("new", NodeDevices.uniform(16))
        if asks:
            assert cluster.schedule(large).node == "new"
    assert cluster.schedule(large).outcome == "wait"
    assert cluster._core.nodes == count
    cluster.add_node("last", NodeDevices.uniform(16))
    assert cluster.schedule(large).node == "last"


def test_a_learned_mix_is_what_it_was_before_a_trial():
    """Inside it grows, takes a step, and is halved for a node of so much memory."""
    cluster = DeviceCluster({"n0": cards(8, 100)}, policy="fgd")
    for i in range(40):
        cluster.commit(cluster.schedule(DeviceRequest("pod", gpus=1, memory=60 + i % 2)))
        if i < 39:
            cluster.release("pod")
    before, useless = cluster.to_bytes(), cluster.fragmentation()
    twin = cluster.copy()
    with cluster.trial():
        for i in range(7):
            cluster.commit(cluster.schedule(DeviceRequest(f"new{i}", gpus=1, memory=70 - i)))
        assert cluster.fragmentation() > useless
        cluster.add_node("huge", HUGE)
        cluster.fragmentation()
        assert b"[70,false" not in cluster.to_bytes()  # halved
        cluster.remove_node("huge")
        cluster.fragmentation()
    assert (cluster.to_bytes(), cluster.fragmentation()) == (before, useless)
    with cluster.trial():  # a question halves it
        cluster.add_node("huge", HUGE)
        cluster.fragmentation()
        assert b"[60,false,1,0,[],20]" in before
        assert b"[60,false,1,0,[],20]" not in cluster.to_bytes()
    assert (cluster.to_bytes(), cluster.fragmentation()) == (before, useless)
    for state in (cluster, twin):
        for i in range(3):
            state.commit(state.schedule(DeviceRequest(f"next{i}", gpus=1, memory=3)))
    assert cluster.to_bytes() == twin.to_bytes()
    assert cluster.fragmentation() == twin.fragmentation()


def test_a_mix_is_set_again_where_the_kernel_lost_it_in_the_middle_of_an_undo():
    mix = TaskMix({Task(60, False, 1, 0, ()): 100})
    cluster = DeviceCluster({"n0": cards(8, 100)}, policy="fgd", mix=mix)
    cluster.commit(cluster.schedule(DeviceRequest("pod", gpus=1, memory=60)))
    useless = cluster.fragmentation()
    assert useless == 40
    with cluster.trial():
        cluster.add_node("huge", HUGE)
        with pytest.raises(ValueError, match="too large"):
            cluster.fragmentation()
        cluster.remove_node("huge")
        assert cluster.fragmentation() == useless
    assert cluster.fragmentation() == useless


def test_a_mix_that_was_too_heavy_before_a_trial_is_too_heavy_after_it():
    mix = TaskMix({Task(60, False, 1, 0, ()): 100})
    cluster = DeviceCluster({"n0": cards(8, 100), "huge": HUGE}, policy="fgd", mix=mix)
    for _ in range(2):
        with pytest.raises(ValueError, match="too large"):
            cluster.fragmentation()
        with cluster.trial():
            cluster.remove_node("huge")
            cluster.fragmentation()


def test_what_a_reservation_holds_in_percent_is_in_percent_after_a_trial():
    """An inventory of the trial says how many bytes its GPUs have."""
    untold = NodeDevices([Device("gpu", i, {"core": 100, "memory_ratio": 100}) for i in range(2)])
    stated = NodeDevices.uniform(2)
    cluster = DeviceCluster({"n0": untold})
    half = [DeviceAllocation("gpu", i, {"core": 50, "memory_ratio": 50}) for i in range(2)]
    cluster.recover_reservation("held", "n0", half)
    cluster.recover("user", "n0", half[:1], reservation="held")
    cluster.recover("other", "n0", half[1:])
    before = cluster.to_bytes(), cluster.reservation("held")
    with cluster.trial():
        cluster.set_inventory("n0", stated)
        assert dict(cluster.reservation("held").held[0].amounts)["memory"] > 0
    assert (cluster.to_bytes(), cluster.reservation("held")) == before


def test_commit_many_that_fails_inside_a_trial_changes_nothing(reserving):
    decisions = [reserving.schedule(DeviceRequest(f"pod{i}", gpus=3)) for i in range(4)]
    for _ in range(2):
        before = reserving.to_bytes()
        with reserving.trial():
            reserving.release("late")
            inside = reserving.to_bytes()
            with pytest.raises(StaleDecisionError):
                reserving.commit_many(decisions)
            assert reserving.to_bytes() == inside
            reserving.commit_many(decisions[:1])
            reserving.check()
        assert reserving.to_bytes() == before


def test_the_kernel_of_devices_rejects_marks_that_end_out_of_order():
    kernel = _devices.DeviceKernel()
    gpu = (0, 0, (100,), -1, -1, -1, (), (), ())
    shape = kernel.add_shape([gpu], (), False, 0, 0, None)
    kernel.set_node(0, shape, (1, 0, 0, 0))
    for end in (kernel.rewind, kernel.keep):
        for number in (0, 1, -1, 2**70, "1", None):
            with pytest.raises(RuntimeError, match="before"):
                end(number)
        outer, inner = kernel.mark(), kernel.mark()
        owner = kernel.charge(0, [(0, 0, (60,), -1, 0, -1)])
        with pytest.raises(RuntimeError, match="before"):
            end(outer)
        kernel.set_node(0, -1, (0, 0, 0, 0))
        assert kernel.drop_unused_shapes() == []
        end(inner)
        kernel.check()
        kernel.copy().check()
        kernel.rewind(outer)
        kernel.check()
        assert kernel.owners(0) == []
        with pytest.raises(KeyError):
            kernel.refund(owner)
    assert kernel.states == 1
