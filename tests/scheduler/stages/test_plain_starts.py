"""Where quotas, cells and devices alone decide, most units start with fewer calls, and alike."""

import pytest
from profiles import seeds
from scheduler.lives import decided, node_cells
from scheduler.test_mixed_histories import MixedHistory

from hivecore.cells import AffinityGroup
from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, Role, Scheduler
from hivecore.scheduler.job import Where
from hivecore.scheduler.stages import units
from hivecore.scheduler.stages.transaction import Stages

COMPOSITIONS = ("devices", "quotas and devices", "cells and devices", "quotas, cells and devices")
NICS = DeviceRequest("any", gpus=2, nics=1, joint=("gpu", "rdma"))


def scheduler_of(parts):
    machine = NodeDevices.uniform(gpus=8, nics=8, sockets=2, switches=4)
    devices = DeviceCluster({f"n{i}": machine for i in range(3)})
    quotas = QuotaTree([Quota("t", max={"gpu": 16})], total={"gpu": 16})
    cells = node_cells(list(devices.nodes), 8, t=3)
    used = {"quotas": quotas, "cells": cells}
    return Scheduler(devices=devices, **{part: used[part] for part in used if part in parts})


@pytest.mark.parametrize("parts", COMPOSITIONS)
@pytest.mark.parametrize(
    ("roles", "where", "is_plain"),
    [
        ([Role("w", 1, gpus=8)], {}, True),
        ([Role("w", 4, devices=NICS)], {}, True),
        ([Role("w", 1, gpus=2), Role("v", 1, gpus=4)], {}, False),
        ([Role("w", 1, gpus=0)], {}, False),
        ([Role("w", 2, gpus=1)], {"nodes": ["n1", "n2"]}, False),
        ([Role("w", 2, gpus=1, per_node=1)], {}, False),
    ],
)
def test_only_pods_that_are_alike_and_may_be_anywhere_start_with_fewer_calls(
    parts, roles, where, is_plain, monkeypatch
):
    scheduler, called = scheduler_of(parts), []
    for name in ("propose", "_start_plain"):
        right = getattr(Stages, name)

        def noted(*arguments, name=name, right=right):
            called.append(name)
            return right(*arguments)

        monkeypatch.setattr(Stages, name, noted)
    (start,) = decided(scheduler, Job("train", "t", roles, where=Where(**where)))
    assert called == ["_start_plain" if is_plain else "propose"]
    assert scheduler.status("train").pods == start.pods
    scheduler.check()
    scheduler.finish("train", 1.0)
    assert len(scheduler.devices) == 0
    scheduler.check()


@pytest.mark.parametrize("parts", [*COMPOSITIONS, "all with lending", "all with cells and sharing"])
def test_histories_are_the_same_whether_or_not_units_start_with_fewer_calls(
    parts, tmp_path, monkeypatch
):
    plain, right = [], Stages._start_plain

    def noted(*arguments):
        plain.append(arguments)
        return right(*arguments)

    monkeypatch.setattr(Stages, "_start_plain", noted)
    for seed in seeds(2):
        logs, states = [], []
        for is_plain in (True, False):
            path, before = tmp_path / f"{seed}-{is_plain}", len(plain)
            with monkeypatch.context() as patched:
                if not is_plain:
                    patched.setitem(units._BUILT, "is_plain", lambda kind: False)
                history = MixedHistory(parts, seed, path)
                history.live(40)
                history.scheduler.close()
            assert is_plain or len(plain) == before
            logs.append(path.read_bytes())
            states.append(history.scheduler.to_bytes())
        assert states[0] == states[1], f"seed {seed}"
        assert logs[0] == logs[1], f"seed {seed}"
    assert plain


@pytest.mark.parametrize("parts", COMPOSITIONS)
def test_a_kind_whose_quota_is_gone_is_refused_as_impossible(parts):
    scheduler = scheduler_of(parts)
    scheduler.submit(Job("train", "t", 8), 0.0)
    if "cells" in parts:
        scheduler.cells.commit(scheduler.cells.schedule(AffinityGroup("train", "t", [(1, 4)])))
        with pytest.raises(ValueError, match="train") as raised:
            scheduler.decide(0.0)
        assert raised.value.__notes__ == ["cells: decision on 'train'"]
        assert len(scheduler.devices) == 0
        return
    if "quotas" in parts:
        scheduler.quotas.release("train")
        with pytest.raises(KeyError, match="train") as raised:
            scheduler.decide(0.0)
        assert raised.value.__notes__ == ["quotas: decision on 'train'"]
        return
    scheduler.devices.allocate(DeviceRequest("train/pod/0", gpus=1), "n0")
    with pytest.raises(ValueError, match="has devices already") as raised:
        scheduler.decide(0.0)
    assert raised.value.__notes__ == ["devices: decision on 'train'"]


@pytest.mark.parametrize("parts", [parts for parts in COMPOSITIONS if "cells" in parts])
def test_devices_that_refuse_the_choice_of_cells_let_them_choose_again(parts):
    scheduler = scheduler_of(parts)
    first = scheduler.cells.schedule(AffinityGroup("train", "t", [(1, 2)])).placement[0]
    holder = DeviceRequest("other", gpus=1)
    gpus = first.leaf_indices
    scheduler.devices.commit(scheduler.devices.schedule(holder, nodes=(first.node,), gpus=gpus))
    (start,) = decided(scheduler, Job("train", "t", 2))
    assert start.pods[0].node != first.node
    scheduler.check()
    assert [name for name, _ in start.decisions] == [
        part for part in ("quotas", "cells") if part in parts
    ]


@pytest.mark.parametrize("parts", [parts for parts in COMPOSITIONS if "cells" in parts])
def test_an_error_of_cells_names_the_job_and_changes_nothing(parts, monkeypatch):
    scheduler = scheduler_of(parts)
    scheduler.submit(Job("train", "t", 2), 0.0)
    before = scheduler.to_bytes()

    def fail(decision):
        raise MemoryError("no more")

    with monkeypatch.context() as patched:
        patched.setattr(scheduler.cells, "commit", fail)
        with pytest.raises(MemoryError) as raised:
            scheduler.decide(0.0)
    assert raised.value.__notes__ == ["cells: commit of 'train'"]
    assert scheduler.to_bytes() == before
    scheduler.check()
    (start,) = scheduler.decide(0.0)
    assert start.job == "train"
