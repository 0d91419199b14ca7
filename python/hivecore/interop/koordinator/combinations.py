"""Which amounts of devices may be asked for together, and what they mean for each device.

A pod names its GPUs in one of fifteen ways, its NICs and FPGAs in one each. Every way comes down to
so many devices, each of which gives the same.
"""

from collections.abc import Callable, Mapping

from hivecore.devices import DeviceNeed
from hivecore.interop.koordinator.names import (
    AMD_GPU,
    AMOUNTS,
    CORE,
    DCU_GPU,
    FPGA,
    GPU,
    MEMORY,
    NPU_CORE,
    NPU_CPU,
    NPU_DVPP,
    NVIDIA_GPU,
    RATIO,
    RDMA,
    SHARED,
)

__all__ = ["COMBINATIONS", "RESOURCES", "check", "gpu_need"]


def _any(asked: Mapping[str, int]) -> None:
    """Counts have no rule."""


def _hundreds(asked: Mapping[str, int]) -> None:
    """Percents are of one device, or whole devices."""
    for name in (GPU, CORE, RATIO, RDMA, FPGA):
        amount = asked.get(name, 0)
        if amount > 100 and amount % 100:
            raise ValueError(f"{name}={amount}: above 100 only multiples of 100 are possible")


def _equal_parts(asked: Mapping[str, int]) -> None:
    """Percents are shared out evenly, each device gives 100 at most."""
    count = asked[SHARED]
    for name in (CORE, RATIO):
        amount = asked.get(name, 0)
        if amount % count:
            raise ValueError(f"{name}={amount}: must be a multiple of {SHARED}={count}")
        if amount // count > 100:
            raise ValueError(f"{name}={amount}: is more than 100 for each of {SHARED}={count}")


def _one_npu(asked: Mapping[str, int]) -> None:
    """A part of one NPU."""
    if asked[SHARED] > 1:
        raise ValueError(f"{SHARED}={asked[SHARED]}: parts of several NPUs are not possible")
    if asked.get(NPU_DVPP, 0) > 100:
        raise ValueError(f"{NPU_DVPP}={asked[NPU_DVPP]}: 100 is all of an NPU's")


#: type -> what is asked for together -> its rule: raises ValueError.
COMBINATIONS: dict[str, dict[tuple[str, ...], Callable[[Mapping[str, int]], None]]] = {
    "gpu": {
        (NVIDIA_GPU,): _any,
        (AMD_GPU,): _any,
        (DCU_GPU,): _any,
        (GPU,): _hundreds,
        (MEMORY,): _hundreds,
        (RATIO,): _hundreds,
        (CORE, MEMORY): _hundreds,
        (CORE, RATIO): _hundreds,
        (NPU_CORE, RATIO): _hundreds,
        (SHARED, MEMORY): _equal_parts,
        (SHARED, RATIO): _equal_parts,
        (SHARED, CORE, MEMORY): _equal_parts,
        (SHARED, CORE, RATIO): _equal_parts,
        (SHARED, NPU_CORE, NPU_CPU, MEMORY): _one_npu,
        (SHARED, NPU_CORE, NPU_CPU, NPU_DVPP, MEMORY): _one_npu,
    },
    "rdma": {(RDMA,): _hundreds},
    "fpga": {(FPGA,): _hundreds},
}

#: type -> the names of all that can be asked of it.
RESOURCES = {
    type_: tuple(dict.fromkeys(name for names in ways for name in names))
    for type_, ways in COMBINATIONS.items()
}

_RULES = {
    type_: {frozenset(names): rule for names, rule in ways.items()}
    for type_, ways in COMBINATIONS.items()
}


def check(type: str, asked: Mapping[str, int]) -> None:
    """Refuse what is not asked for together, or breaks its rule."""
    rule = _RULES[type].get(frozenset(asked))
    if rule is None:
        ways = "; ".join(" + ".join(names) for names in COMBINATIONS[type])
        raise ValueError(f"{' + '.join(asked)} is no way to ask for a {type}; these are: {ways}")
    rule(asked)


def gpu_need(asked: Mapping[str, int], **wishes: object) -> DeviceNeed:
    """The GPUs that a pod needs.

    The number is ``koordinator.sh/gpu.shared``; without it a whole GPU for every 100 percent of
    memory, else one. What is asked for is divided by it; a remainder of bytes is not given.

    :param asked: the sums of the pod, by the names of resources; none is 0.
    :param wishes: further arguments of `DeviceNeed`.
    :raises ValueError: this is not asked for together, or a rule is broken.

    Source: Koordinator, ``ValidateDeviceRequest``, ``calcDesiredRequestsAndCountForGPU``.

    >>> from hivecore.interop.koordinator.combinations import gpu_need
    >>> need = gpu_need({"koordinator.sh/gpu-core": 200, "koordinator.sh/gpu-memory-ratio": 200})
    >>> need.count, need.amounts
    (2, (('core', 100), ('memory_ratio', 100)))
    """
    check("gpu", asked)
    totals = {name: asked[there] for name, there in AMOUNTS["gpu"].items() if there in asked}
    for name in (NVIDIA_GPU, AMD_GPU, DCU_GPU):
        if name in asked:
            totals = dict.fromkeys(("core", "memory_ratio"), 100 * asked[name])
    if GPU in asked:
        totals = dict.fromkeys(("core", "memory_ratio"), asked[GPU])
    ratio = totals.get("memory_ratio", 0)
    whole = ratio // 100 if ratio > 100 and ratio % 100 == 0 else 1
    count = asked.get(SHARED, whole)
    amounts = {name: total // count for name, total in totals.items()}
    for name in ("memory", "memory_ratio"):
        if amounts.get(name) == 0:
            raise ValueError(f"{AMOUNTS['gpu'][name]}={totals[name]}: nothing for each of {count}")
    return DeviceNeed("gpu", count, amounts, **wishes)  # type: ignore[arg-type]
