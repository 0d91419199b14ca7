"""Templates and models that are not shared, with the numbers of Koordinator's own tests.

Source: pkg/scheduler/plugins/deviceshare at commit a7a1b76b, TestAllocateByTemplate,
Test_gpuSharedResourceTemplatesCache_findMatchedTemplates, Test_Plugin_PreFilter, Test_Plugin_Filter
and Test_Plugin_Reserve, in our words; the machine of eight NPUs is theirs as well. Koordinator's
side is its peer; kernel and twin must choose the same.
"""

import pytest
from devices.sharing.share_cases import ASCEND, GIB, npus, share
from devices.twin import Pair
from peers.koordinator_devices import Refusal, place

from hivecore.devices import Device, DeviceNeed, DeviceRequest
from hivecore.reference.devices.node_state import NodeState

EIGHT = npus(8, vendor="huawei", model="Ascend-310P")
HALF = ASCEND["vir04"]


def answers(inventory, request, halves=0):
    """The template, the minor and the amounts that Koordinator's peer charges, or its code and
    whether it may end; so many cards have half a card in use, of which two do not fit on one.
    """
    ours, theirs = Pair(inventory), NodeState(inventory)
    for i in range(halves):
        half = share(f"half{i}", HALF)
        ours.commit(half.name, ours.ask(half, "bin-pack"))
        theirs.charge(half.name, place(theirs, half, "most_allocated"))
    plan = ours.ask(request, "bin-pack")
    answer = place(theirs, request, "most_allocated")
    assert (plan is None) == isinstance(answer, Refusal)
    if plan is None:
        return tuple(answer)
    (charge,), (chosen,) = answer, ours.named(plan.charges)
    assert (charge.template, charge.minor) == (chosen.template, chosen.minor)
    return charge.template, charge.minor, charge.amounts


def test_a_share_is_packed_on_the_card_in_use_and_named():
    template, minor, amounts = answers(EIGHT, share("p", ASCEND["vir01"]), halves=1)
    assert (template, minor) == ("vir01", 0)
    assert amounts == ASCEND["vir01"] | {"memory_ratio": 12}


def test_a_share_that_does_not_fit_on_the_card_in_use_is_on_the_next():
    template, minor, amounts = answers(EIGHT, share("p", ASCEND["vir04_4c_dvpp"]), halves=1)
    assert (template, minor) == ("vir04_4c_dvpp", 1)
    assert amounts == ASCEND["vir04_4c_dvpp"] | {"memory_ratio": 50}


def test_where_no_card_has_enough_left_the_share_waits_for_others_to_leave():
    request = share("p", ASCEND["vir04_4c_dvpp"])
    assert answers(EIGHT, request, halves=8) == ("insufficient_gpus", True)


def test_a_node_of_another_model_has_no_template_and_never_will():
    other = npus(8, rows={})
    assert answers(other, share("p", ASCEND["vir04_4c_dvpp"])) == ("no_template", False)


@pytest.mark.parametrize("name", ASCEND)
def test_every_template_is_found_by_exactly_what_it_gives(name):
    template, minor, _ = answers(EIGHT, share("p", ASCEND[name]))
    assert (template, minor) == (name, 0)


@pytest.mark.parametrize(
    "amounts",
    [
        ASCEND["vir02"] | {"npu_cpu": 3},
        {"npu_core": 2},
        HALF | {"npu_core": 5},  # pod has invalid gpu request 5
        {"memory": 6 * GIB, "npu_core": 2, "npu_cpu": 2},
    ],
    ids=["more of one", "one alone", "fives", "one missing"],
)
def test_what_is_nearly_a_template_is_refused(amounts):
    assert answers(EIGHT, share("p", amounts)) == ("no_template", False)


def test_a_card_with_room_for_one_template_alone_gives_it():
    # "sufficient device resource 6": 2 of 8 cores, 1 of 7 processors, a quarter of the memory left
    state = NodeState(npus(1))
    for name in ("vir04", "vir02"):
        state.charge(name, place(state, share(name, ASCEND[name])))
    assert isinstance(place(state, share("p", ASCEND["vir02"])), Refusal)
    (charge,) = place(state, share("p", ASCEND["vir02_1c"]))
    assert charge.template == "vir02_1c"
    assert charge.amounts == ASCEND["vir02_1c"] | {"memory_ratio": 25}


def test_whole_npus_are_of_no_template():
    # "sufficient device resource 5"
    request = share("p", {"npu_core": 8, "memory_ratio": 100})
    template, minor, amounts = answers(EIGHT, request)
    assert (template, minor) == ("", 0)
    assert amounts == {"npu_core": 8, "memory_ratio": 100, "memory": 24 * GIB}


def test_a_model_that_is_not_shared_refuses_shares_for_good_and_gives_whole_ones():
    duo = EIGHT.replace(model="Ascend-310P3-300I-DUO", templates=None, shareable=False)
    for amounts in (ASCEND["vir01"], {"memory_ratio": 50}, {"memory": GIB}):
        assert answers(duo, share("p", amounts)) == ("unshareable", False)
    assert answers(duo, share("p", {"npu_core": 8, "memory_ratio": 100}))[:2] == ("", 0)


def test_isolation_is_named_before_sharing_and_sharing_before_devices():
    duo = EIGHT.replace(devices=(), shareable=False)
    request = share("p", ASCEND["vir01"], isolation_provider="HAMi-core")
    assert code_of_koordinator(duo, request) == "no_isolation"
    assert code_of_koordinator(duo, share("p", ASCEND["vir01"])) == "unshareable"
    empty = EIGHT.replace(devices=(), templates=npus(2, rows={}).templates)
    assert code_of_koordinator(empty, share("p", ASCEND["vir01"])) == "no_devices"


def test_a_template_is_looked_for_when_it_is_the_gpus_turn():
    # NICs that come first and are short are named, although the node has no template either.
    gpu = DeviceNeed("gpu", 1, {"npu_core": 3, "memory": 1})
    needs = [gpu, DeviceNeed("rdma", 2, {"share": 100})]
    node = EIGHT.replace(devices=(*EIGHT.devices, Device("rdma", 0, {"share": 100})))
    by_nics = DeviceRequest("p", needs=needs, joint=("rdma", "gpu"))
    by_gpus = DeviceRequest("p", needs=needs, joint=("gpu", "rdma"))
    assert code_of_koordinator(node, by_nics) == "insufficient"
    assert code_of_koordinator(node, by_gpus) == "no_template"


def code_of_koordinator(inventory, request):
    refusal = place(NodeState(inventory), request)
    assert isinstance(refusal, Refusal)
    return refusal.code
