"""Regroups jobs that share GPUs (Muri, section 4.2).

Alike groups are grouped again on the same number of GPUs. Old and new groups fall into components
without common jobs; a component changes if its gain exceeds the cost of restarts. A new group goes
where most of its jobs run already.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hivecore.interleaving import group_jobs, interleave
from hivecore.scheduler.stages._groups import ROUNDING, Durations, Group, progress

__all__ = ["Regrouping", "regroup"]


class Regrouping(NamedTuple):
    """The jobs of a group after regrouping."""

    group: Group
    #: the jobs that share its GPUs from now on; empty: the GPUs become free
    jobs: tuple[str, ...]


def regroup(
    groups: list[Group],
    gpus: int,
    *,
    max_group: int,
    max_slowdown: float | None,
    restart_share: float,
) -> list[Regrouping]:
    """The groups that change.

    :param groups: alike, in the order of their starts.
    :param gpus: GPUs of each group.
    :param restart_share: loss of a job that moves, in progress over the lifetime of the groups.
    """
    names = [name for group in groups for name in group.jobs]
    stages = {name: row for group in groups for name, row in group.jobs.items()}
    grouping = group_jobs(
        [stages[name] for name in names],
        [gpus] * len(names),
        gpus * len(groups),
        max_group=max_group,
        weight="gain",
        max_slowdown=max_slowdown,
    )
    fresh = [tuple(names[number] for number in numbers) for numbers in grouping.groups]
    changes: list[Regrouping] = []
    for old, new in _parts(groups, fresh):
        placed = _placed(old, new) if len(new) <= len(old) else []
        moved = sum(name not in change.group.jobs for change in placed for name in change.jobs)
        if not moved or not all(_is_allowed(jobs, stages, max_slowdown) for jobs in new):
            continue
        before = sum(progress(list(group.jobs.values())) for group in old)
        after = sum(progress([stages[name] for name in jobs]) for jobs in new)
        if after - before > moved * restart_share + ROUNDING:
            changes += [change for change in placed if set(change.jobs) != set(change.group.jobs)]
    return changes


def _parts(
    groups: list[Group], fresh: list[tuple[str, ...]]
) -> Iterator[tuple[list[Group], list[tuple[str, ...]]]]:
    """Components of old and new groups that have common jobs, directly or through others."""
    of_name = {name: number for number, new in enumerate(fresh) for name in new}
    left = dict.fromkeys(range(len(groups)))
    at = {name: number for number, group in enumerate(groups) for name in group.jobs}
    while left:
        olds, news, stack = set(), set(), [next(iter(left))]
        while stack:
            number = stack.pop()
            if number in olds:
                continue
            olds.add(number)
            left.pop(number, None)
            for name in groups[number].jobs:
                new = of_name[name]
                if new not in news:
                    news.add(new)
                    stack += [at[other] for other in fresh[new]]
        yield (
            [groups[number] for number in sorted(olds)],
            [fresh[number] for number in sorted(news)],
        )


def _placed(old: list[Group], new: list[tuple[str, ...]]) -> list[Regrouping]:
    """Assign each new group to the GPUs where most of its jobs run; empty groups come first."""
    pairs = sorted(
        (-sum(name in group.jobs for name in jobs), group.number, place)
        for group in old
        for place, jobs in enumerate(new)
    )
    by_number = {group.number: group for group in old}
    changed: dict[int, Regrouping] = {}
    taken: set[int] = set()
    for _, number, place in pairs:
        if number not in changed and place not in taken:
            group = by_number[number]
            stay = [name for name in group.jobs if name in new[place]]
            come = [name for name in new[place] if name not in group.jobs]
            changed[number] = Regrouping(group, (*stay, *come))
            taken.add(place)
    gone = [Regrouping(group, ()) for group in old if group.number not in changed]
    return [*gone, *changed.values()]


def _is_allowed(
    names: Iterable[str], stages: dict[str, Durations], max_slowdown: float | None
) -> bool:
    rows = [stages[name] for name in names]
    if max_slowdown is None or len(rows) == 1:
        return True
    least = min(sum(row) for row in rows)
    return interleave(rows).iteration_time <= max_slowdown * least * (1.0 + ROUNDING)
