"""Regroups jobs that share GPUs (Muri, section 4.2).

Alike groups are grouped again on the same number of GPUs. Old and new groups fall into components
without common jobs; a component changes if its gain exceeds the cost of restarts. Components that
need or free GPUs can change together. New groups go where the fewest jobs have to move.
"""

from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from hivecore.interleaving import group_jobs
from hivecore.matching import max_weight_matching
from hivecore.scheduler.stages._groups import ROUNDING, Durations, Group, progress

__all__ = ["Regrouping", "regroup"]


class Regrouping(NamedTuple):
    """The jobs of a group after regrouping."""

    group: Group
    #: the jobs that share its GPUs from now on; empty: the GPUs become free
    jobs: tuple[str, ...]


class _Part(NamedTuple):
    """A component of old groups, and the jobs of new groups."""

    old: list[Group]
    new: list[tuple[str, ...]]


class _Change(NamedTuple):
    """Groups that change, and their gain beyond the cost of restarts."""

    gain: float
    groups: list[Regrouping]


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
        # no job of a group is slower than the one with the shortest iteration
        priorities=[sum(stages[name]) for name in names],
    )
    fresh = [tuple(names[number] for number in numbers) for numbers in grouping.groups]
    even: list[_Part] = []
    alone: list[_Part] = []
    uneven = _Part([], [])
    for part in _parts(groups, fresh):
        if len(part.old) == len(part.new):
            even.append(part)
        else:
            alone.append(part)
            uneven.old.extend(part.old)
            uneven.new.extend(part.new)
    # Parts that need more GPUs can take those that others free.
    choices = [
        _paying([_change(part, stages, restart_share) for part in parts])
        for parts in ([*even, *alone], [*even, uneven])
    ]
    return max(choices, key=attrgetter("gain")).groups


def _change(part: _Part, stages: dict[str, Durations], restart_share: float) -> _Change:
    """The change of a part, and its gain beyond the cost of restarts."""
    if len(part.new) > len(part.old):
        return _Change(0.0, [])
    groups = _placed(part.old, part.new)
    moved = sum(name not in each.group.jobs for each in groups for name in each.jobs)
    before = sum(progress(list(group.jobs.values())) for group in part.old)
    after = sum(progress([stages[name] for name in jobs]) for jobs in part.new)
    changed = [each for each in groups if set(each.jobs) != set(each.group.jobs)]
    return _Change(after - before - moved * restart_share, changed)


def _paying(changes: list[_Change]) -> _Change:
    """The changes that pay."""
    paying = [change for change in changes if change.gain > ROUNDING]
    groups = [each for change in paying for each in change.groups]
    return _Change(sum(change.gain for change in paying), groups)


def _parts(groups: list[Group], fresh: list[tuple[str, ...]]) -> Iterator[_Part]:
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
        yield _Part(
            [groups[number] for number in sorted(olds)],
            [fresh[number] for number in sorted(news)],
        )


def _placed(old: list[Group], new: list[tuple[str, ...]]) -> list[Regrouping]:
    """Assign each new group to GPUs of an old one, so that few jobs move; empty ones first."""
    first = len(old)
    at = {name: first + place for place, jobs in enumerate(new) for name in jobs}
    stays = Counter((i, at[name]) for i, group in enumerate(old) for name in group.jobs)
    graph = first + len(new), [*stays], [*stays.values()]
    mates = max_weight_matching(graph, certificate=False).mate[:first].tolist()
    free = iter(sorted(set(range(first, first + len(new))) - {*mates}))
    gone, changed = [], []
    for group, mate in zip(old, mates, strict=True):
        place = next(free, -1) if mate < 0 else mate
        if place < 0:
            gone.append(Regrouping(group, ()))
            continue
        jobs = new[place - first]
        stay = [name for name in group.jobs if name in jobs]
        come = [name for name in jobs if name not in group.jobs]
        changed.append(Regrouping(group, (*stay, *come)))
    return [*gone, *changed]
