"""Which jobs move when groups that share GPUs are grouped again, compared with all groupings."""

import random
from itertools import combinations, permutations

from profiles import seeds

from hivecore.scheduler.stages._groups import Group
from hivecore.scheduler.stages._regrouping import regroup


def regrouped(groups, *, max_group=3, max_slowdown=None, restart_share=0.1):
    """The jobs on each set of GPUs afterwards, given the stages of those before."""
    old = []
    for number, jobs in enumerate(groups):
        group = Group(number, None, (), True)
        group.jobs = dict(jobs)
        old.append(group)
    terms = {"max_slowdown": max_slowdown, "restart_share": restart_share}
    after = [[*jobs] for jobs in groups]
    for group, jobs in regroup(old, 8, max_group=max_group, **terms):
        after[group.number] = [*jobs]
    return after


def moved(groups, after):
    """How many jobs are on other GPUs than before."""
    return sum(name not in old for old, new in zip(groups, after, strict=True) for name in new)


def test_the_fewest_jobs_move():
    reads = (4.0, 1.0)
    groups = [{"a": reads, "b": reads}, {"c": (1.0, 4.0)}]
    after = regrouped(groups, max_group=2)
    assert sorted(map(sorted, after)) in ([["a"], ["b", "c"]], [["a", "c"], ["b"]])
    assert moved(groups, after) == 1


def test_a_group_is_split_on_gpus_that_other_groups_free():
    equal = (1.0, 1.0)
    groups = [{"a": equal}, {"x": (2.0, 8.0), "y": (2.0, 5.0)}, {"b": equal}]
    after = regrouped(groups, max_group=2)
    assert sorted(map(sorted, after)) == [["a", "b"], ["x"], ["y"]]
    assert moved(groups, after) == 2


def test_the_best_groups_are_those_that_slow_no_job_down_too_much():
    groups = [
        {"a": (8.0, 1.0, 1.0), "b": (2.0, 8.0, 1.0), "c": (5.0, 1.0, 8.0)},
        {"d": (2.0, 5.0, 1.0)},
        {"e": (3.0, 1.0, 5.0), "f": (3.0, 2.0, 1.0)},
    ]
    after = regrouped(groups, max_slowdown=1.6, restart_share=0.0)
    assert after != [[*jobs] for jobs in groups]
    stages = {name: row for jobs in groups for name, row in jobs.items()}
    for names in after:
        assert is_allowed([stages[name] for name in names], 1.6)


# --- compared with all groupings


def iteration(rows):
    """The time of an iteration in the best order of the jobs."""
    resources = range(len(rows[0]))
    return min(
        sum(
            max(row[(i + offset) % len(row)] for row, offset in zip(rows, offsets, strict=True))
            for i in resources
        )
        for offsets in permutations(resources, len(rows))
    )


def progress(rows):
    return sum(map(sum, rows)) / iteration(rows) if rows else 0.0


def is_allowed(rows, most):
    return len(rows) < 2 or most is None or iteration(rows) <= most * min(map(sum, rows)) + 1e-9


def groupings(names, largest, most):
    """All groupings into at most so many groups."""
    if not names or not most:
        yield from () if names else [[]]
        return
    first, *rest = names
    for size in range(largest):
        for others in combinations(rest, size):
            left = [name for name in rest if name not in others]
            for more in groupings(left, largest, most - 1):
                yield [{first, *others}, *more]


def fewest_moves(old, new):
    """The fewest moves if each new group gets any GPUs."""
    stays = max(
        sum(len(old[at].keys() & jobs) for at, jobs in zip(order, new, strict=True))
        for order in permutations(range(len(old)), len(new))
    )
    return sum(map(len, new)) - stays


def test_regrouping_pays_and_gains_as_much_as_the_best_grouping():
    wins, reached = 0, 0
    cases = seeds(150)
    for seed in cases:
        rng = random.Random(seed)
        resources = rng.choice([2, 3])
        slowdown, share = rng.choice([None, 1.6]), rng.choice([0.0, 0.05, 0.3])
        rows = {
            name: tuple(rng.choice([1.0, 2.0, 3.0, 5.0, 8.0]) for _ in range(resources))
            for name in "abcdef"[: rng.randint(2, 6)]
        }
        groups = [{} for _ in range(rng.randint(2, 4))]
        for name, row in rows.items():
            jobs = rng.choice(groups)
            if len(jobs) < resources and is_allowed([*jobs.values(), row], slowdown):
                jobs[name] = row
        groups = [jobs for jobs in groups if jobs]
        names = [name for jobs in groups for name in jobs]
        if not names:
            continue

        def worth(new, moves, rows=rows, share=share):
            return sum(progress([rows[name] for name in jobs]) for jobs in new) - moves * share

        before = worth(groups, 0)
        best = max(
            worth(new, fewest_moves(groups, new)) - before
            for new in groupings(names, resources, len(groups))
            if all(is_allowed([rows[name] for name in jobs], slowdown) for jobs in new)
        )
        terms = {"max_group": resources, "max_slowdown": slowdown, "restart_share": share}
        after = regrouped(groups, **terms)
        assert sorted(name for jobs in after for name in jobs) == sorted(names)
        moves = moved(groups, after)
        gain = worth(after, moves) - before
        assert gain <= best + 1e-9 and (gain > 0 or not moves)
        assert moves == fewest_moves(groups, [set(jobs) for jobs in after if jobs])
        wins += best > 1e-9
        reached += best > 1e-9 and gain > best - 1e-9
    assert wins > len(cases) // 8 and reached >= 0.8 * wins
