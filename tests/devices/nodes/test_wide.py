"""Nodes with more devices than a word has bits: the kernel's answers are the twin's as well."""

import random

from devices.twin import POLICIES, Pair
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.devices import (
    Device,
    DeviceRequest,
    NodeDevices,
    PartitionTable,
    VirtualFunctionGroup,
)


def wide(rng):
    """Up to 129 GPUs and 66 NICs on few switches, as the twin tries all sets of these."""
    gpus, nics = rng.choice((63, 64, 65, 66, 100, 129)), rng.choice((0, 2, 66))
    switches = rng.choice((1, 2, 3, 4))

    def place(i, of):
        switch = i * switches // of if rng.random() < 0.8 else rng.randrange(switches)
        return {"pcie": f"p{switch}", "numa": switch // 2, "healthy": rng.random() < 0.95}

    amounts = {"core": 100, "memory": 1000, "memory_ratio": 100}
    devices = [Device("gpu", i, amounts, **place(i, gpus)) for i in range(gpus)]
    for i in range(nics):
        groups = [VirtualFunctionGroup([f"{i}:0", f"{i}:1"])]
        devices.append(Device("rdma", i, {"share": 100}, vf_groups=groups, **place(i, nics)))
    table = None
    if rng.random() < 0.4:
        sizes = (1, 2, 2, 4, 8, 60, 63)
        sets = {tuple(sorted(rng.sample(range(gpus), size))) for size in sizes for _ in range(3)}
        table = PartitionTable.of_sets(sorted(sets))
    return NodeDevices(tuple(devices), table, rng.choice(("honor", "prefer")))


@examples(40)
@given(st.integers(0, 2**32))
def test_every_answer_of_a_wide_node_is_the_twin_s(seed):
    rng = random.Random(seed)
    pair = Pair(wide(rng))
    for step in range(4):
        share = {"memory_percent": rng.randint(1, 99)} if rng.random() < 0.3 else {}
        nics = rng.choice((0, 1, 2)) if pair.twin.inventory.of_type("rdma") else 0
        joined = nics and rng.random() < 0.5
        request = DeviceRequest(
            "new",
            gpus=rng.choice((1, 1, 2, 4, 8, 60, 63, 64, 65, 100)),
            **share,
            nics=nics,
            nic_percent=rng.choice((50, 100)),
            nic_wishes={"vf_selector": rng.choice((None, {}))},
            gpu_wishes={
                "scope": rng.choice((None, "pcie", "numa")),
                "exclusive": rng.choice((None, None, "device", "pcie")),
            },
            joint=("gpu", "rdma") if joined else (),
            same_pcie=bool(joined) and rng.random() < 0.5,
        )
        plan = pair.ask(request, rng.choice(POLICIES))
        if plan is not None:
            pair.commit(f"owner{step}", plan)
        elif pair.owners and rng.random() < 0.5:
            pair.release(rng.choice(sorted(pair.owners)))
        pair.check()
