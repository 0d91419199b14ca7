"""Kubernetes' device claims: pairs of GPU and NIC on one node, partitions of GPUs on another."""

from hivecore.dra import DraCluster

PROFILES = {"1g": (range(7), 1), "2g": ((0, 2, 4), 2), "3g": ((0, 4), 4), "7g": ((0,), 8)}
ROOT = "resource.kubernetes.io/pcieRoot"


def _published(name, node, slices=1, **content):
    pool = {"name": node, "generation": 1, "resourceSliceCount": slices}
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, **content}
    return {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def _device(name, kind, root="", takes=()):
    own = {"name": name, "attributes": {"kind": {"string": kind}, ROOT: {"string": root}}}
    consumed = {"counterSet": name[:5], "counters": {f"slice{i}": {"value": "1"} for i in takes}}
    return own | {"consumesCounters": [consumed] if takes else []}


def _claim(name, *wanted, pairs=()):
    requests = [{"name": of, "exactly": {"deviceClassName": c, "count": n}} for of, c, n in wanted]
    constraints = [{"requests": list(pair), "matchAttribute": ROOT} for pair in pairs]
    spec = {"devices": {"requests": requests, "constraints": constraints}}
    return {"metadata": {"name": name, "namespace": "ml"}, "spec": spec}


def main() -> None:
    """Schedule claims and tell what they got."""
    cluster = DraCluster()
    for kind in ("gpu", "nic", *PROFILES):
        of_kind = f'device.attributes["gpu.example.com"].kind == "{kind}"'
        spec = {"selectors": [{"cel": {"expression": of_kind}}]}
        cluster.update({"kind": "DeviceClass", "metadata": {"name": kind}, "spec": spec})
    both = [_device(f"{kind}-{i}", kind, f"pci{i}") for i in range(8) for kind in ("gpu", "nic")]
    parts = [
        _device(f"gpu-{gpu}-{profile}-{start}", profile, takes=range(start, start + size))
        for gpu in range(4)
        for profile, (starts, size) in PROFILES.items()
        for start in starts
    ]
    slices = {f"slice{i}": {"value": "1"} for i in range(8)}
    sets = [{"name": f"gpu-{gpu}", "counters": slices} for gpu in range(4)]
    shared = _published("sets", "n1", 2, sharedCounters=sets)
    cluster.update(shared, _published("parts", "n1", 2, devices=parts))
    cluster.update(_published("devices", "n0", devices=both))
    pairs = [(f"gpu{i}", f"nic{i}") for i in range(8)]
    train = _claim("train", *((of, of[:3], 1) for pair in pairs for of in pair), pairs=pairs)
    serve = _claim("serve", ("large", "3g", 4), ("small", "1g", 8))
    for claim in (train, serve, _claim("tune", ("whole", "7g", 1))):
        name, decision = claim["metadata"]["name"], cluster.schedule([claim])
        if decision is None:
            print(f"{name} waits; n1: {cluster.fits([claim]).reason('n1')}")
        else:
            cluster.commit(decision)
            print(f"{name} on {decision.node}:", *(of.device.device for of in decision.devices))


if __name__ == "__main__":
    main()
