"""Objects of Koordinator for the tests: pods, device records, and their hostile relatives."""

import math

from hypothesis import strategies as st

__all__ = ["ALLOCATED", "HINT", "JOINT", "PARTITIONS", "SPEC", "broken", "gpu", "pod", "record"]

DOMAIN = "scheduling.koordinator.sh"
ALLOCATED = f"{DOMAIN}/device-allocated"
HINT = f"{DOMAIN}/device-allocate-hint"
JOINT = f"{DOMAIN}/device-joint-allocate"
SPEC = f"{DOMAIN}/gpu-partition-spec"
PARTITIONS = f"{DOMAIN}/gpu-partitions"


def pod(limits, annotations=None, labels=None, name="p", **spec):
    """A pod with one container; a list of limits: one container for each."""
    many = limits if isinstance(limits, list) else [limits]
    containers = [{"name": f"c{i}", "resources": {"limits": one}} for i, one in enumerate(many)]
    return {
        "metadata": {"name": name, "annotations": annotations, "labels": labels},
        "spec": {"containers": containers, **spec},
    }


def gpu(minor, **fields):
    """A GPU of 80 GiB; two on a switch, four on a NUMA node."""
    return {
        "type": "gpu",
        "minor": minor,
        "id": f"GPU-{minor}",
        "health": True,
        "resources": {
            "koordinator.sh/gpu-core": "100",
            "koordinator.sh/gpu-memory": "80Gi",
            "koordinator.sh/gpu-memory-ratio": 100,
        },
        "topology": {
            "socketID": -1,
            "nodeID": minor // 4,
            "pcieID": f"pci{minor // 2}",
            "busID": f"0000:{minor:02x}:00.0",
        },
        **fields,
    }


def record(*devices, annotations=None, labels=None):
    """A device record."""
    return {
        "apiVersion": f"{DOMAIN}/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "n1", "annotations": annotations, "labels": labels},
        "spec": {"devices": list(devices)},
    }


HOSTILE = st.one_of(
    st.sampled_from(
        [None, True, math.nan, math.inf, -1, 2**63, 2**80, 1.5, b"x", "", "NaN", "1e99", "\ud800"]
    ),
    st.sampled_from(
        [[], {}, [None], {None: None}, {1: 2}, [[[[]]]], {"": {"": None}}, object(), ()]
    ),
    st.integers(),
    st.text(max_size=5),
)


@st.composite
def broken(draw, document, values=HOSTILE):
    """The document with one value, anywhere in it, that is something else."""
    where = draw(st.sampled_from(list(_places(document))))
    return _replaced(document, where, draw(values))


def _places(value, way=()):
    yield way
    if isinstance(value, dict):
        entries = value.items()
    else:
        entries = enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from _places(entry, (*way, key))


def _replaced(value, way, new):
    if not way:
        return new
    if isinstance(value, dict):
        return {**value, way[0]: _replaced(value[way[0]], way[1:], new)}
    return [_replaced(one, way[1:], new) if i == way[0] else one for i, one in enumerate(value)]
