"""Percents of cards of any size: what sums to 100 fits, here and through Koordinator's records."""

import json

from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.devices import Device, DeviceCluster, DeviceNeed, DeviceRequest, NodeDevices
from hivecore.interop.koordinator import read_allocation, write_allocation
from hivecore.reference.devices.eligible import charge_of

totals = st.one_of(
    st.integers(1, 2**48),
    st.integers(1, 300),
    st.sampled_from([16 << 30, 85198045184, 24564 << 20, 40536 << 20, 81559 << 20]),
)


@st.composite
def percents_of_one_card(draw):
    """Percents that sum to 100 at most."""
    left, result = 100, []
    while left and draw(st.integers(0, 9)):
        result.append(draw(st.integers(1, left)))
        left -= result[-1]
    return result


def one_card(total):
    amounts = {"core": 100, "memory": total, "memory_ratio": 100}
    return NodeDevices([Device("gpu", 0, amounts)])


def occupy(inventory, percents):
    cluster = DeviceCluster({"n": inventory})
    for i, percent in enumerate(percents):
        request = DeviceRequest(f"pod-{i}", 1, core=percent, memory_percent=percent)
        decision = cluster.allocate(request, "n")
        assert decision.outcome == "bind", (i, percent, decision.reason)
        decision.verify(
            inventory, [item for j in range(i) for item in cluster.allocations(f"pod-{j}")]
        )
    cluster.check()
    return cluster


@given(totals, st.integers(1, 100))
@examples(150)
def test_equal_percents_fit_as_often_as_they_go_into_a_hundred(total, pods):
    occupy(one_card(total), [100 // pods] * pods)


@given(totals, percents_of_one_card())
@examples(300)
def test_percents_that_sum_to_a_hundred_fit_in_any_order(total, percents):
    cluster = occupy(one_card(total), percents)
    card = one_card(total).devices[0]
    for i, percent in enumerate(percents):
        need = DeviceNeed("gpu", 1, {"core": percent, "memory_ratio": percent})
        [held] = cluster.allocations(f"pod-{i}")
        assert dict(held.amounts) == charge_of(need, card)
        assert charge_of(need, card).get("memory", 0) == percent * total // 100


@given(totals, percents_of_one_card())
@examples(200)
def test_annotations_of_percents_say_the_same_percents_and_bytes(total, percents):
    inventory = one_card(total)
    cluster = occupy(inventory, percents)
    restarted = DeviceCluster({"n": inventory})
    for i, percent in enumerate(percents):
        held = cluster.allocations(f"pod-{i}")
        text = write_allocation(held, inventory)
        resources = json.loads(text)["gpu"][0]["resources"]
        ratio = int(resources.get("koordinator.sh/gpu-memory-ratio", 0))
        if total >= 100:
            assert ratio == percent
        assert ratio * total // 100 == dict(read_allocation(text)[0].amounts).get("memory", 0)
        restarted.recover(f"pod-{i}", "n", read_allocation(text))
    assert restarted.to_bytes() == cluster.to_bytes()
