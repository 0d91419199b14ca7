"""Objects of Koordinator for the tests: pods and device records."""

__all__ = ["ALLOCATED", "HINT", "JOINT", "PARTITIONS", "SPEC", "gpu", "pod", "record"]

DOMAIN = "scheduling.koordinator.sh"
ALLOCATED = f"{DOMAIN}/device-allocated"
HINT = f"{DOMAIN}/device-allocate-hint"
JOINT = f"{DOMAIN}/device-joint-allocate"
SPEC = f"{DOMAIN}/gpu-partition-spec"
PARTITIONS = f"{DOMAIN}/gpu-partitions"


def pod(limits, annotations=None, labels=None, name="p", **spec):
    """A pod with one container; a list of limits: one container for each."""
    many = limits if isinstance(limits, list) else [limits]
    containers = [{"name": f"c{i}", "resources": {"limits": entry}} for i, entry in enumerate(many)]
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
