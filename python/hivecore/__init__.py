"""The scheduling core that other GPU-cluster schedulers embed.

Begin with `hivecore.cells.CellCluster`: which GPUs a tenant may take of a shared cluster. A part is
loaded when it is first used, and each has its own ``help``:

- `cells`: GPUs that sit together, owned by tenants and lent to others (HiveD)
- `devices`: GPUs and NICs by topology, fabric partitions, shared GPUs (Koordinator, gpushare)
- `dra`: Kubernetes' device claims, resource slices and pools
- `quotas`: elastic quota trees: what each quota may use now, and what it gives back (Koordinator)
- `topology`: where a gang goes in a network of spines, blocks and racks (Koordinator)
- `gangs`: pods that start together or not at all
- `queues`: which job of which tenant is next (KubeDL)
- `matching`: the best pairs in any graph, with a proof
- `interleaving`: training jobs that share GPUs in turns (Muri)
- `caching`: caches for training data
- `storage`: cache and remote IO divided among jobs (SiloD)
- `replicas`: which worker holds which block, and which to evict (Alluxio)
- `scheduler`: all of them composed: events in, actions out
- `verify`: whether what the scheduler tells to do keeps every rule
- `sim`, `traces`: policies on public and made-up traces; also the command ``hivecore``
- `interop`: HiveD, Koordinator, gpushare, networkx: their formats and protocols
- `decisions`, `errors`: the words and the exceptions that all parts share
- `reference`: every kernel again in readable Python

In a stage, `schedule` says what would be done and changes nothing, `commit` does it, `release` ends
it and `explain` names the cheapest change that would admit a request:

>>> from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
>>> nodes = Chain(levels=["gpu", "node"], fanouts=[8], roots=2)
>>> cluster = CellCluster(ClusterSpec({"V100": nodes}, {"vision": {"V100": {"node": 2}}}))
>>> decision = cluster.schedule(AffinityGroup("train", "vision", [(1, 8)]))
>>> decision.outcome, decision.placement[0].node
('bind', 'V100/0')
>>> cluster.commit(decision)

Not being scheduled is a decision with a reason, not an error. The tutorial in ``docs`` goes on from
here; ``examples`` has scripts to start from.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from hivecore.errors import HivecoreError

__version__ = "0.1.0"

__all__ = ["HivecoreError", "__version__"]

_PARTS = (
    "caching",
    "cells",
    "decisions",
    "devices",
    "dra",
    "gangs",
    "interleaving",
    "interop",
    "matching",
    "queues",
    "quotas",
    "reference",
    "replicas",
    "scheduler",
    "sim",
    "storage",
    "topology",
    "traces",
    "verify",
)

if TYPE_CHECKING:
    from hivecore import caching as caching
    from hivecore import cells as cells
    from hivecore import decisions as decisions
    from hivecore import devices as devices
    from hivecore import dra as dra
    from hivecore import gangs as gangs
    from hivecore import interleaving as interleaving
    from hivecore import interop as interop
    from hivecore import matching as matching
    from hivecore import queues as queues
    from hivecore import quotas as quotas
    from hivecore import reference as reference
    from hivecore import replicas as replicas
    from hivecore import scheduler as scheduler
    from hivecore import sim as sim
    from hivecore import storage as storage
    from hivecore import topology as topology
    from hivecore import traces as traces
    from hivecore import verify as verify
else:

    def __getattr__(name):
        if name in _PARTS:
            return _import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_PARTS, *(name for name in globals() if name.startswith("_"))})
