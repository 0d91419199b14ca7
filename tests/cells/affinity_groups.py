"""Small clusters of affinity groups: how tests make them, ask them and start groups in them."""

from hivecore.cells import AffinityGroup, Chain, ClusterSpec

LEVELS = ("gpu", "pair", "node", "rack")


def racks(count=2, fanouts=(2, 2, 2), **options):
    """Racks of two nodes of two pairs of two GPUs: c/0, c/1, ... are the nodes of a chain "c"."""
    return Chain(LEVELS[: len(fanouts) + 1], fanouts, count, **options)


def owned(tenants, chain=None, pins=None):
    """A cluster of one chain "c", by default two racks; {"A": {"node": 2}} is what A owns."""
    cells = {tenant: {"c": count} for tenant, count in tenants.items()}
    return ClusterSpec({"c": chain or racks()}, cells, pins or {})


def ask(cluster, name, tenant="A", members=((1, 1),), *, suggested=None, **options):
    group = AffinityGroup(name, tenant, members, **options)
    return cluster.schedule(group, suggested_nodes=suggested)


def start(cluster, name, tenant="A", members=((1, 1),), **options):
    """Schedule, let the victims leave, and commit: the group must run then."""
    decision = ask(cluster, name, tenant, members, **options)
    for victim in decision.victims:
        cluster.release(victim)
    if decision.victims:
        decision = ask(cluster, name, tenant, members, **options)
    assert decision.outcome == "bind", decision.reason
    cluster.commit(decision)
    cluster.check()
    return decision


def schedule_and_reserve(cluster, group, **options):
    """The decision, after what it has to say of reservations has been done."""
    decision = cluster.schedule(group, **options)
    if decision.outcome == "preempt":
        cluster.reserve(decision)
    elif decision.outcome == "wait" and group.name in cluster:
        cluster.cancel(group.name)
    return decision


def nodes_of(decision):
    return [pod.node for pod in decision.placement]


def admitted_by(cluster, change, suggested=None):
    """Whether the change of an explanation lets its request start."""
    branch = cluster.copy()
    for name in change.owners:
        branch.release(name)
    nodes = None if "suggested_nodes" in change.relaxed else suggested
    return branch.schedule(change.request, suggested_nodes=nodes).outcome == "bind"
