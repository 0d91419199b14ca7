"""Use along the path of a quota stays within its limits."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from hivecore._thousandths import Amount
from hivecore.quotas import QuotaTree
from hivecore.scheduler import Job, Start
from hivecore.verify._state import State, amounts_of, hold

__all__ = ["check_quota"]


def check_quota(action: Start, job: Job, state: State, tree: QuotaTree) -> None:
    """Sums along the path, including the start, stay within the limits."""
    memory = state.before.gpu_memory
    limits, requested = dict(tree.quota(job.quota).max), amounts_of(job, action.pods, memory)
    requested += state.of_devices[job.name]
    wanted = [name for name in limits if requested[name]]
    used: dict[str, Counter[str]] = defaultdict(Counter)
    firm: Counter[str] = Counter()
    has = [
        (other.quota, other.preemptible, amounts_of(other, pods, memory) + state.of_devices[name])
        for name, (other, pods) in state.has.items()
        if state.holds(name)
    ]
    for name in tree.owners:  # an owner outside this scheduler
        if state.job_of(name) not in state.before:
            request, times = tree.request(name), tree.members(name)
            amounts = Counter({what: times * amount for what, amount in request.amounts})
            has.append((request.quota, request.preemptible, amounts))
    was_admitted = job.name in state.admitted_before
    for quota, preemptible, amounts in has:
        counted, path = dict(tree.quota(quota).max), _path(tree, quota)
        mine = Counter({what: amount for what, amount in amounts.items() if what in counted})
        for place in path:
            used[place] += mine
        counts_for_minimum = quota == job.quota if was_admitted else job.quota in path
        if counts_for_minimum and not preemptible:
            firm += mine
    *above, own = reversed(_path(tree, job.quota))
    for place in [own, *(above if tree.check_ancestors else ())]:
        # Quotas that were added below it later were not limited by its guarantee.
        if tree.check_ancestors or not was_admitted:
            _compare(f"max of {place!r}", used[place], dict(tree.quota(place).max), wanted)
        if tree.limit == "runtime" and not was_admitted:
            _compare(f"runtime of {place!r}", used[place], tree.runtime(place), wanted)
    top = tree.quota(_path(tree, job.quota)[-1])
    if tree.check_ancestors and not top.outside:
        tops = [
            each for each in map(tree.quota, tree.quotas) if not each.parent and not each.outside
        ]
        total = sum((used[each.name] for each in tops if each.tree == top.tree), Counter[str]())
        _compare("the total", total, tree.total(top.tree), wanted)
    if not job.preemptible:
        _compare(f"min of {own!r}", firm, dict(tree.quota(own).min), wanted)


def _path(tree: QuotaTree, quota: str) -> list[str]:
    """Return a quota and its ancestors."""
    parent = tree.quota(quota).parent
    return [quota, *(_path(tree, parent) if parent else ())]


def _compare(what: str, used: Counter[str], most: Mapping[str, Amount], wanted: list[str]) -> None:
    for name in wanted:
        limit = most.get(name, 0)
        hold(used[name] <= limit, "quota", f"{what} is {limit} {name}, {used[name]} would be used")
