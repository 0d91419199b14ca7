"""What may be written in more than one way: a NIC by both of its names, memory as a quantity."""

import pytest

from hivecore.devices import (
    Device,
    DeviceAllocation,
    DeviceNeed,
    DeviceRequest,
    NodeDevices,
    ShareTemplate,
)
from hivecore.interleaving import Grouper
from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.scheduler import Job, Role

GIB = 2**30


def test_a_nic_may_be_called_so():
    assert Device("nic", 0, {"share": 100}) == Device("rdma", 0, {"share": 100})
    assert DeviceAllocation("nic", 0, {"share": 1}) == DeviceAllocation("rdma", 0, {"share": 1})
    assert DeviceNeed("nic", 1, {"share": 1}) == DeviceNeed("rdma", 1, {"share": 1})
    request = DeviceRequest("a", gpus=2, nics=1, joint=("gpu", "nic"))
    assert request == DeviceRequest("a", gpus=2, nics=1, joint=("gpu", "rdma"))
    assert request.need("nic") == request.need("rdma")
    node = NodeDevices.uniform(gpus=2, nics=2)
    assert node.of_type("nic") == node.of_type("rdma") != ()
    with pytest.raises(ValueError, match="joint"):
        DeviceRequest("a", gpus=2, nics=1, joint=("nic", "rdma"))


def test_memory_of_devices_may_be_a_quantity():
    assert NodeDevices.uniform(2, gpu_memory="80Gi", gpu_reserved="1Gi") == NodeDevices.uniform(
        2, gpu_memory=80 * GIB, gpu_reserved=GIB
    )
    assert Device("gpu", 0, {"memory": "80Gi"}) == Device("gpu", 0, {"memory": 80 * GIB})
    request = DeviceRequest("a", gpus=1, memory="20Gi", host_memory="1.5Gi")
    assert request == DeviceRequest("a", gpus=1, memory=20 * GIB, host_memory=3 * GIB // 2)
    assert DeviceNeed("gpu", 1, {"memory": "1G"}) == DeviceNeed("gpu", 1, {"memory": 10**9})
    assert ShareTemplate("a", {"memory": "6Gi"}) == ShareTemplate("a", {"memory": 6 * GIB})


def test_memory_of_jobs_and_quotas_may_be_a_quantity():
    memory, written = {"memory": 80 * GIB}, {"memory": "80Gi"}
    assert Role("a", resources=written) == Role("a", resources=memory)
    assert Quota("a", max=written) == Quota("a", max=memory)
    assert QuotaRequest("a", "q", written) == QuotaRequest("a", "q", memory)
    assert Quota("a", max={"cpu": "1500m"}) == Quota("a", max={"cpu": 1.5})
    tree = QuotaTree([Quota("a", max=written)], total=written)
    assert tree.status("a").used == {"memory": 0}
    assert Job("a", "b", [Role("w", resources=written)]).roles[0].resources == (
        ("memory", 80 * GIB),
    )


def test_memory_of_jobs_in_groups_may_be_a_quantity():
    grouper = Grouper(3, 8, gpu_memory="80Gi")
    grouper.add("a", (1, 1, 1), 1, memory="50Gi")
    grouper.add("b", (1, 1, 1), 1, memory=50 * GIB)
    assert len(grouper.groups()) == 2
    with pytest.raises(ValueError, match=r"^memory"):
        grouper.add("c", (1, 1, 1), 1, memory="90 Gi")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda text: DeviceRequest("a", gpus=1, memory=text), "^memory"),
        (lambda text: DeviceRequest("a", host_memory=text), "^host_memory"),
        (lambda text: NodeDevices.uniform(1, gpu_memory=text), "^gpu_memory"),
        (lambda text: Device("gpu", 0, {"memory": text}), r"^amounts\['memory'\]"),
        (lambda text: Role("a", resources={"memory": text}), r"^resources\['memory'\]"),
        (lambda text: Quota("a", max={"memory": text}), r"^max\['memory'\]"),
    ],
)
@pytest.mark.parametrize("text", ["", "80 Gi", "80gb", "-1Gi", "1e99", "9" * 70])
def test_what_is_no_quantity_is_refused_by_name(call, says, text):
    with pytest.raises(ValueError, match=says):
        call(text)
