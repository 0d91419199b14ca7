"""Claims on which a search device by device does not end: each with the answer and its proof."""

from dra.worlds import (
    claim,
    counter_slice,
    device,
    either,
    gpus,
    published_slice,
    request,
    shared,
    terms,
)

# An A100: by profile the first memory slices of its placements, how many it has, compute slices.
MIG = {
    "1g": (range(7), 1, 1),
    "2g": ((0, 2, 4), 2, 2),
    "3g": ((0, 4), 4, 3),
    "4g": ((0,), 4, 4),
    "7g": ((0,), 8, 7),
}


def mig_node(number, profiles=tuple(MIG), shared=False):
    """The slices of a node whose GPUs are given in partitions; or in shares of these, of ten for
    each memory slice.
    """
    sets = {f"gpu{g}": {"compute": 7, **{f"slice{i}": 1 for i in range(8)}} for g in range(number)}
    devices = [
        device(
            f"gpu{g}-{profile}-{start}",
            {"model": profile},
            counters={
                f"gpu{g}": {
                    "compute": str(compute),
                    **{f"slice{i}": "1" for i in range(start, start + size)},
                }
            },
        )
        for g in range(number)
        for profile, (starts, size, compute) in MIG.items()
        if profile in profiles
        for start in starts
    ]
    for entry in devices if shared else ():
        size = MIG[entry["attributes"]["model"]["string"]][1]
        entry |= {"allowMultipleAllocations": True, "capacity": {"m": {"value": str(10 * size)}}}
    parts = [devices[i : i + 60] for i in range(0, len(devices), 60)]
    each = [published_slice(f"d{i}", of, count=len(parts) + 1) for i, of in enumerate(parts)]
    return [*each, counter_slice("sets", sets, count=len(parts) + 1)]


def partitions(**counts):
    """A claim for so many partitions of each profile."""
    return claim(*(request(f"r{of}", n, where=f"model={of}") for of, n in counts.items()))


def pairs(number):
    """A claim for so many pairs of a GPU and a NIC with a root in common."""
    names = [(f"gpu-{i}", f"nic-{i}") for i in range(number)]
    in_order = [name for kind in zip(*names, strict=True) for name in kind]
    wanted = [request(name, where=f"model={name[:3]}") for name in in_order]
    constraints = [{"matchAttribute": "gpu.x/root", "requests": list(both)} for both in names]
    return claim(*wanted, constraints=constraints)


def roots(*of):
    """A slice with so many GPUs and NICs by root."""
    devices = [
        device(f"{model}-{root}-{i}", {"model": model, "root": f"root{root}"})
        for place, model in enumerate(("gpu", "nic"))
        for root, both in enumerate(of)
        for i in range(both[place])
    ]
    return [published_slice("s", devices)]


def models(*of, name="model"):
    """A slice with devices that differ in an attribute."""
    return [published_slice("s", [device(f"d{i}", {name: m}) for i, m in enumerate(of)])]


def shares(number, size, *wanted):
    """So many devices of a size, and a claim for shares of them."""
    devices = [shared(f"d{i}", {"m": str(size)}) for i in range(number)]
    requests = [request(f"r{i}", capacity={"m": str(n)}) for i, n in enumerate(wanted)]
    return [published_slice("s", devices)], claim(*requests)


def unlimited(number, counter=None):
    """A slice with so many devices of which shares take nothing but a counter; each on a root."""
    devices = [
        shared(f"d{i}", {}, {"root": str(i)}, counters={"set": {"x": "1"}} if counter else None)
        for i in range(number)
    ]
    sets = [counter_slice("t", {"set": {"x": str(counter)}}, count=2)] if counter else []
    return [published_slice("s", devices, count=1 + len(sets)), *sets]


def many(*counts, **fields):
    """A claim with a request for each of these counts."""
    return claim(*(request(f"r{i}", count) for i, count in enumerate(counts)), **fields)


def choices(number, models, count):
    """So many requests, each for devices of any of these models."""
    alternatives = {model: terms(count, where=f"model={model}") for model in models}
    return claim(*(either(f"r{i}", **alternatives) for i in range(number)))


TIGHT = [52, 53, 54, 55, 56, 57, 58, 59, 40, 41, 42, 43, 44, 45, 46, 47]
EIGHT = "abcdefgh"

# name: slices, claim, whether there is an answer
HARD = {
    "32 of 31": (gpus(31), claim(request("r", 32)), False),
    "16 and 16 of 31": (gpus(31), claim(request("r", 16), request("q", 16)), False),
    "11, 11 and 10 of 31": (
        gpus(31),
        claim(request("r", 11), request("q", 11), request("p", 10)),
        False,
    ),
    "32 of one of four groups of 31": (
        models(*(m for m in "abcd" for _ in range(31))),
        claim(request("r", 32), match="gpu.x/model"),
        False,
    ),
    "32 of the last of four groups": (
        models(*(m for m in "abcd" for _ in range(31)), "d"),
        claim(request("r", 32), match="gpu.x/model"),
        True,
    ),
    "12 distinct values of 11": (
        models(*(m for m in "abcdefghijk" for _ in range(3))),
        claim(*(request(f"r{i}") for i in range(12)), distinct="gpu.x/model"),
        False,
    ),
    "12 distinct values of 12": (
        models(*(m for m in "abcdefghijkl" for _ in range(3))),
        claim(*(request(f"r{i}") for i in range(12)), distinct="gpu.x/model"),
        True,
    ),
    "distinct lists that cross": (
        models(*(list(of) for of in ("ab", "bc", "cd", "de", "ef", "fg", "gh", "ha")), name="l"),
        claim(request("r", 5), distinct="gpu.x/l"),
        False,
    ),
    "8 of 8 alternatives, 7 models": (
        models(*EIGHT[:7]),
        choices(8, EIGHT, 1),
        False,
    ),
    "3 of 2 of each of 8 models": (models(*EIGHT * 2), choices(8, EIGHT, 3), False),
    "9 times 2 of 8 times 3": (models(*EIGHT * 3), choices(9, EIGHT, 2), False),
    "8 times 2 of 8 times 3": (models(*EIGHT * 3), choices(8, EIGHT, 2), True),
    "all after 10": (gpus(20), claim(request("r", 10), request("q", "All")), False),
    "8 pairs on 8 roots": (roots(*[(1, 1)] * 8), pairs(8), True),
    "8 pairs on 4 roots": (roots(*[(2, 2)] * 4), pairs(8), True),
    "8 pairs, 7 on one root each": (roots((1, 0), (1, 2), *[(1, 1)] * 6), pairs(8), False),
    "16 pairs, 15 on one root each": (roots((1, 0), (1, 2), *[(1, 1)] * 14), pairs(16), False),
    "8 pairs on the last 8 roots": (roots(*[(1, 0)] * 10, *[(1, 1)] * 8), pairs(8), True),
    "16 x 3g": (mig_node(8), partitions(**{"3g": 16}), True),
    "16 x 3g and 1g": (mig_node(8), partitions(**{"3g": 16, "1g": 1}), False),
    "8 x 7g and 1g": (mig_node(8), partitions(**{"7g": 8, "1g": 1}), False),
    "8 x 3g before 8 x 4g": (mig_node(8), partitions(**{"3g": 8, "4g": 8}), True),
    "8 x 3g, 8 x 4g and 1g": (mig_node(8), partitions(**{"3g": 8, "4g": 8, "1g": 1}), False),
    "32 x 1g": (mig_node(8), partitions(**{"1g": 32}), True),
    "8 x 1g, 2g and 3g": (mig_node(8), partitions(**{"1g": 8, "2g": 8, "3g": 8}), True),
    "65 of 64 memory slices": (
        mig_node(8),
        partitions(**{"1g": 9, "2g": 8, "3g": 5, "4g": 3, "7g": 1}),
        False,
    ),
    "8 devices, 24 shares of 3 tenths": (*shares(8, 10, *[3] * 24), True),
    "8 devices, 25 shares of 3 tenths": (*shares(8, 10, *[3] * 25), False),
    "shares of eight full devices": (*shares(8, 100, *TIGHT), True),
    "shares above eight full devices": (*shares(8, 100, *TIGHT[:8], *range(42, 50)), False),
    "two of a root of which shares take nothing": (
        unlimited(4),
        many(1, 1, 1, 1, 1, 1, 2, match="gpu.x/root"),
        False,
    ),
    "4 of 3 of which shares take nothing": (unlimited(12, 3), many(2, 3, 2, 3, 2, 4), False),
    "4 of 4 of which shares take nothing": (unlimited(12, 4), many(2, 3, 2, 3, 2, 4), True),
    "22 shares of 3 tenths of a slice": (
        mig_node(1, ("1g", "2g"), shared=True),
        claim(*(request(f"r{i}", capacity={"m": "3"}) for i in range(22))),
        False,
    ),
}
