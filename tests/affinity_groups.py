"""Affinity groups that reserve what they are to get."""


def schedule_and_reserve(cluster, group, **options):
    """The decision, after what it has to say of reservations has been done."""
    decision = cluster.schedule(group, **options)
    if decision.outcome == "preempt":
        cluster.reserve(decision)
    elif decision.outcome == "wait" and group.name in cluster:
        cluster.cancel(group.name)
    return decision
