"""The resources that a pod may combine, and what they mean for each device.

A pod can ask for GPUs in fifteen ways, and for NICs and FPGAs in one way each. Each way becomes a
number of devices and an equal amount of each.
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


def _any(amounts: Mapping[str, int]) -> None:
    """Accept any count."""


def _hundreds(amounts: Mapping[str, int]) -> None:
    """Accept up to 100 percent, or a multiple of 100."""
    for name in (GPU, CORE, RATIO, RDMA, FPGA):
        amount = amounts.get(name, 0)
        if amount > 100 and amount % 100:
            raise ValueError(f"{name}={amount}: above 100 only multiples of 100 are possible")


def _equal_parts(amounts: Mapping[str, int]) -> None:
    """Accept percentages that divide evenly among the devices, at most 100 each."""
    count = amounts[SHARED]
    for name in (CORE, RATIO):
        amount = amounts.get(name, 0)
        if amount % count:
            raise ValueError(f"{name}={amount}: must be a multiple of {SHARED}={count}")
        if amount // count > 100:
            raise ValueError(f"{name}={amount}: is more than 100 for each of {SHARED}={count}")


def _one_npu(amounts: Mapping[str, int]) -> None:
    """Accept a part of one NPU."""
    if amounts[SHARED] > 1:
        raise ValueError(f"{SHARED}={amounts[SHARED]}: parts of several NPUs are not possible")
    if amounts.get(NPU_DVPP, 0) > 100:
        raise ValueError(f"{NPU_DVPP}={amounts[NPU_DVPP]}: 100 is all of an NPU's")


#: type -> resources asked for together -> a rule that raises ValueError.
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

#: type -> all resources that a pod can ask for.
RESOURCES = {
    type_: tuple(dict.fromkeys(name for names in ways for name in names))
    for type_, ways in COMBINATIONS.items()
}

_RULES = {
    type_: {frozenset(names): rule for names, rule in ways.items()}
    for type_, ways in COMBINATIONS.items()
}


def check(type: str, amounts: Mapping[str, int]) -> None:
    """Refuse an unknown combination of resources, or amounts that break its rule."""
    rule = _RULES[type].get(frozenset(amounts))
    if rule is None:
        ways = "; ".join(" + ".join(names) for names in COMBINATIONS[type])
        raise ValueError(f"{' + '.join(amounts)} is no way to ask for a {type}; these are: {ways}")
    rule(amounts)


def gpu_need(requested: Mapping[str, int], **wishes: object) -> DeviceNeed:
    """Return the GPUs that a pod needs.

    Their number is ``koordinator.sh/gpu.shared``, or else one for each 100 percent of memory, or
    else 1. Amounts are divided by it, bytes rounded down.

    :param requested: the pod's total by resource; none is 0.
    :param wishes: further arguments of `DeviceNeed`.
    :raises ValueError: an unknown combination of resources, or amounts that break its rule.

    Source: Koordinator, ``ValidateDeviceRequest``, ``calcDesiredRequestsAndCountForGPU``.

    >>> from hivecore.interop.koordinator.combinations import gpu_need
    >>> need = gpu_need({"koordinator.sh/gpu-core": 200, "koordinator.sh/gpu-memory-ratio": 200})
    >>> need.count, need.amounts
    (2, (('core', 100), ('memory_ratio', 100)))
    """
    check("gpu", requested)
    totals = {
        name: requested[resource]
        for name, resource in AMOUNTS["gpu"].items()
        if resource in requested
    }
    for name in (NVIDIA_GPU, AMD_GPU, DCU_GPU):
        if name in requested:
            totals = dict.fromkeys(("core", "memory_ratio"), 100 * requested[name])
    if GPU in requested:
        totals = dict.fromkeys(("core", "memory_ratio"), requested[GPU])
    ratio = totals.get("memory_ratio", 0)
    whole = ratio // 100 if ratio > 100 and ratio % 100 == 0 else 1
    count = requested.get(SHARED, whole)
    amounts = {name: total // count for name, total in totals.items()}
    for name in ("memory", "memory_ratio"):
        if amounts.get(name) == 0:
            raise ValueError(f"{AMOUNTS['gpu'][name]}={totals[name]}: nothing for each of {count}")
    return DeviceNeed("gpu", count, amounts, **wishes)  # type: ignore[arg-type]
