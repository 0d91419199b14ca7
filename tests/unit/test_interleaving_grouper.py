"""Single facts of the grouper that keeps its groups."""

import pytest

from hivecore.interleaving import Grouper, group_jobs

DATA, GPU, NET = (9.0, 1.0, 1.0), (1.0, 9.0, 1.0), (1.0, 1.0, 9.0)


def names(grouper):
    return [group.jobs for group in grouper.groups()]


def test_the_groups_are_those_of_group_jobs():
    rows, gpus = [DATA, GPU, NET, DATA, GPU], [4, 4, 4, 8, 8]
    grouper = Grouper(3, 12)
    for job, (row, size) in enumerate(zip(rows, gpus, strict=True)):
        grouper.add(job, row, size)
    expected = group_jobs(rows, gpus, 12).groups
    assert sorted(names(grouper)) == sorted(tuple(sorted(group)) for group in expected)
    assert [group.gpus for group in grouper.groups()] == [4, 8]


def test_jobs_run_alone_while_there_are_gpus_for_all():
    grouper = Grouper(3, 8)
    grouper.add("a", DATA, 4)
    grouper.add("b", GPU, 4)
    assert names(grouper) == [("a",), ("b",)]
    grouper.add("c", NET, 4)
    assert sorted(map(len, names(grouper))) == [1, 2]


def test_urgent_jobs_go_first_and_the_rest_waits():
    grouper = Grouper(3, 4, max_group=2)
    for number, row in enumerate([DATA, GPU, NET]):
        grouper.add(number, row, 4, priority=-number)
    assert names(grouper) == [(2, 1)]
    grouper.set_priority(0, -5)
    assert names(grouper) == [(0, 2)]
    grouper.remove(2)
    assert names(grouper) == [(0, 1)]


def test_a_large_job_that_does_not_fit_lets_others_pass():
    grouper = Grouper(3, 12)
    grouper.add("wide", DATA, 8)
    grouper.add("wider", DATA, 12)
    grouper.add("small", DATA, 4)
    assert names(grouper) == [("wide",), ("small",)]


def swapping(cost):
    """Two pairs that would be better the other way round, after a change of who is there."""
    grouper = Grouper(3, 8, restart_cost=cost, max_group=2)
    grouper.add("d1", DATA, 4)
    grouper.add("d2", DATA, 4)
    grouper.add("d3", DATA, 4)
    grouper.add("g1", GPU, 4)
    first = {frozenset(pair) for pair in names(grouper)}
    lonely = next(pair for pair in first if "g1" not in pair)
    grouper.remove(next(job for job in ("d1", "d2", "d3") if {job, "g1"} in first))
    grouper.add("g2", GPU, 4)
    return lonely, {frozenset(pair) for pair in names(grouper)}


def test_a_worse_pair_is_parted_only_if_restarts_are_cheap():
    lonely, cheap = swapping(0.0)
    assert lonely not in cheap
    assert all(len({job[0] for job in pair}) == 2 for pair in cheap)
    lonely, dear = swapping(10.0)
    assert lonely in dear


def test_what_is_kept_grows_when_gpus_are_lacking():
    grouper = Grouper(3, 8, restart_cost=10.0)
    grouper.add("d1", DATA, 4)
    grouper.add("d2", DATA, 4)
    grouper.add("d3", DATA, 4)
    pair = next(group for group in names(grouper) if len(group) == 2)
    grouper.add("n", NET, 4)
    found = {frozenset(group.jobs): group.kept for group in grouper.groups()}
    assert found[frozenset(pair)]
    assert sorted(map(len, found)) == [2, 2]


def test_a_group_that_slows_an_urgent_job_too_much_is_not_kept():
    grouper = Grouper(2, 1, restart_cost=1e6, max_slowdown=2.0)
    grouper.add("long", (10.0, 10.0), 1)
    grouper.add("short", (1.0, 1.0), 1, priority=1)
    assert names(grouper) == [("long", "short")]
    grouper.set_priority("short", -1)
    assert names(grouper) == [("short",)]


def test_memory_is_a_limit():
    grouper = Grouper(3, 1, gpu_memory=10)
    grouper.add("a", DATA, 1, memory=6)
    grouper.add("b", GPU, 1, memory=5)
    grouper.add("c", NET, 1, memory=4)
    assert set(names(grouper)[0]) in ({"a", "c"}, {"b", "c"})


def test_a_copy_is_independent():
    grouper = Grouper(3, 4)
    grouper.add("a", DATA, 4)
    grouper.groups()
    other = grouper.copy()
    other.add("b", GPU, 4)
    assert names(other) == [("a", "b")]
    assert (names(grouper), len(grouper), "b" in grouper) == ([("a",)], 1, False)
    other.check()


def test_mistakes_are_named_and_change_nothing():
    grouper = Grouper(3, 4)
    grouper.add("a", DATA, 4)
    nan = float("nan")
    for call, error, message in [
        (lambda: grouper.add("a", GPU, 4), ValueError, "job 'a' was added before"),
        (lambda: grouper.add("b", GPU, 5), ValueError, "gpus=5: allowed are 1 to 4"),
        (lambda: grouper.add("b", GPU, 1.5), TypeError, "gpus must be an integer"),
        (lambda: grouper.add("b", (1, 2), 4), ValueError, "durations must have 3 entries"),
        (lambda: grouper.add("b", (1, 2, nan), 4), ValueError, "durations"),
        (lambda: grouper.add("b", GPU, 4, priority=nan), ValueError, "priority is not a number"),
        (lambda: grouper.add("b", GPU, 4, priority="x"), TypeError, "priority must be a number"),
        (lambda: grouper.add("b", GPU, 4, solo=0.0), ValueError, "solo"),
        (lambda: grouper.add("b", GPU, 4, memory=1), ValueError, "gpu_memory was not given"),
        (lambda: grouper.add([], GPU, 4), TypeError, "unhashable"),
        (lambda: grouper.remove("b"), KeyError, "b"),
        (lambda: grouper.set_priority("b", 1), KeyError, "b"),
        (lambda: grouper.set_priority("a", nan), ValueError, "priority is not a number"),
    ]:
        with pytest.raises(error, match=message):
            call()
    assert names(grouper) == [("a",)]
    for arguments, options, error, message in [
        ((1, 4), {}, ValueError, "resources=1"),
        ((3, 0), {}, ValueError, "capacity=0"),
        ((3, 4), {"restart_cost": -1}, ValueError, "restart_cost=-1"),
        ((3, 4), {"restart_cost": nan}, ValueError, "restart_cost=nan"),
        ((3, 4), {"restart_cost": "x"}, TypeError, "restart_cost must be"),
        ((3, 4), {"weight": len}, TypeError, "weight must be a name"),
        ((3, 4), {"max_group": 9}, ValueError, "max_group=9"),
        ((4, 4), {"model": "data2"}, ValueError, "model 'data2' needs"),
        ((3, 4), {"method": "x"}, ValueError, "method must be one of"),
    ]:
        with pytest.raises(error, match=message):
            Grouper(*arguments, **options)
