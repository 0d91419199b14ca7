"""Answers of Koordinator's own device allocator on random nodes and pods, as its peer gives them.

Source: pkg/scheduler/plugins/deviceshare at commit a7a1b76b, compiled and run; the file names it.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from peers.koordinator_devices import Refusal, node_score, place

from hivecore.devices import (
    Device,
    DeviceNeed,
    DeviceRequest,
    NodeDevices,
    Partition,
    PartitionTable,
    VirtualFunctionGroup,
)
from hivecore.reference.devices.node_state import Charge, NodeState

FILE = json.loads(Path(__file__).with_name("devices_koordinator.json").read_text("utf-8"))
CASES = [FILE["nodes"][case["node"]] | case for case in FILE["cases"]]


def state_of(case):
    """The node of a case, with its owners, after devices are gone or have turned (un)healthy."""
    devices = [device_of(entry) for entry in case["devices"]]
    state = NodeState(inventory_of(case, devices))
    for name, charges in case.get("owners", {}).items():
        state.charge(name, charges_of(charges))
    if "gone" in case or "turned" in case:
        left = [
            device.replace(
                healthy=device.healthy != ([device.type, device.minor] in case.get("turned", ()))
            )
            for device in devices
            if [device.type, device.minor] not in case.get("gone", ())
        ]
        state.set_inventory(inventory_of(case, left))
    return state


def device_of(entry):
    type_, minor, amounts, options = entry
    groups = [VirtualFunctionGroup(ids, labels) for ids, labels in options.get("vfs", ())]
    places = {name: options[name] for name in ("socket", "numa", "pcie") if name in options}
    return Device(
        type_,
        minor,
        amounts,
        healthy=options.get("healthy", True),
        labels=options.get("labels", {}),
        module_id=options.get("module"),
        vf_groups=groups,
        **places,
    )


def inventory_of(case, devices):
    table = None
    if "partitions" in case:
        rows = tuple(Partition(tuple(members), *rest) for members, *rest in case["partitions"])
        table = PartitionTable(rows)
    return NodeDevices(
        tuple(devices),
        table,
        case.get("policy", "prefer"),
        case.get("planned", False),
        model=case.get("model", ""),
        vendor=case.get("vendor", ""),
    )


def request_of(case):
    request = dict(case["request"])
    needs = [DeviceNeed(**need) for need in request.pop("needs")]
    return DeviceRequest("pod", needs=needs, **request)


def charges_of(groups):
    """The charges of groups of devices of which the same is charged."""
    return tuple(
        Charge(type_, minor, amounts, function)
        for type_, amounts, minors, *functions in groups
        for minor, function in zip(minors, *(functions or [[None] * len(minors)]), strict=True)
    )


def in_order(charges):
    return sorted(charges, key=lambda charge: (charge.type, charge.minor))


@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_peer_answers_as_koordinator(case):
    case = CASES[case]
    options = case.get("restriction", {})
    answer = place(state_of(case), request_of(case), case.get("strategy"), **options)
    recorded = case["answer"]
    if "failure" in recorded:
        assert list(answer) == recorded["failure"]
    else:
        assert not isinstance(answer, Refusal)
        assert in_order(answer) == in_order(charges_of(recorded["charges"]))


def test_the_peer_scores_nodes_as_koordinator():
    scored = [c for c in CASES if "score" in c and "numa" not in c.get("restriction", {})]
    assert len(scored) > 70
    for case in scored:
        assert node_score(state_of(case), request_of(case), case["strategy"]) == case["score"]


def test_koordinator_serves_a_third_of_the_cases_and_refuses_the_others_for_many_reasons():
    codes = Counter(case["answer"].get("failure", ["served"])[0] for case in CASES)
    assert codes["served"] > len(CASES) // 3
    assert len(codes) > 10
