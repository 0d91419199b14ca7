"""What is used along the path of a quota is within what may be used."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from hivecore._thousandths import Amount
from hivecore.quotas import QuotaTree
from hivecore.scheduler import Job, Start
from hivecore.verify._state import State, amounts_of, hold

__all__ = ["check_quota"]


def check_quota(action: Start, job: Job, state: State, tree: QuotaTree) -> None:
    """Sums along the path, with what starts, are within what may be used."""
    memory = state.before.gpu_memory
    limits, asked = dict(tree.quota(job.quota).max), amounts_of(job, action.pods, memory)
    asked += state.of_devices[job.name]
    wanted = [name for name in limits if asked[name]]
    used: dict[str, Counter[str]] = defaultdict(Counter)
    firm: Counter[str] = Counter()
    has = [
        (one.quota, one.preemptible, amounts_of(one, pods, memory) + state.of_devices[name])
        for name, (one, pods) in state.has.items()
        if state.holds(name)
    ]
    for name in tree.owners:  # an owner that is not of this scheduler
        if state.job_of(name) not in state.before:
            one, times = tree.request(name), tree.members(name)
            amounts = Counter({what: times * amount for what, amount in one.amounts})
            has.append((one.quota, one.preemptible, amounts))
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
        # Quotas that came below it since then were not held up by what it is promised.
        if tree.check_ancestors or not was_admitted:
            _compare(f"max of {place!r}", used[place], dict(tree.quota(place).max), wanted)
        if tree.limit == "runtime" and not was_admitted:
            _compare(f"runtime of {place!r}", used[place], tree.runtime(place), wanted)
    top = tree.quota(_path(tree, job.quota)[-1])
    if tree.check_ancestors and not top.outside:
        tops = [one for one in map(tree.quota, tree.quotas) if not one.parent and not one.outside]
        total = sum((used[one.name] for one in tops if one.tree == top.tree), Counter[str]())
        _compare("the total", total, tree.total(top.tree), wanted)
    if not job.preemptible:
        _compare(f"min of {own!r}", firm, dict(tree.quota(own).min), wanted)


def _path(tree: QuotaTree, quota: str) -> list[str]:
    """A quota and those above it."""
    parent = tree.quota(quota).parent
    return [quota, *(_path(tree, parent) if parent else ())]


def _compare(what: str, used: Counter[str], most: Mapping[str, Amount], wanted: list[str]) -> None:
    for name in wanted:
        limit = most.get(name, 0)
        hold(used[name] <= limit, "quota", f"{what} is {limit} {name}, {used[name]} would be used")
