"""Single facts of the grouper that keeps its groups."""

import numpy as np
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


def test_jobs_that_are_no_candidates_run_if_others_leave_gpus_for_them():
    grouper = Grouper(2, 10, max_slowdown=1.0)  # equal jobs do not share
    for small in ("small 1", "small 2"):
        grouper.add(small, (1.0, 0.0), 1, priority=3)
    assert names(grouper) == [("small 1",), ("small 2",)]
    grouper.add("wide", (1.0, 0.0), 8, priority=2)
    for twin in ("twin 1", "twin 2"):
        grouper.add(twin, (1.0, 0.0), 2, priority=1)
    assert names(grouper) == [("twin 1",), ("twin 2",), ("small 1",), ("small 2",)]


def swapping(cost, **options):
    """Two pairs that would be better the other way round, after jobs have come and left."""
    grouper = Grouper(3, 8, restart_cost=cost, max_group=2, **options)
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
    for method in ("muri", "local"):
        lonely, dear = swapping(10.0, method=method)
        assert lonely in dear


@pytest.mark.parametrize(
    ("weight", "better", "worse"),
    [("efficiency", 22 / 33, 22 / 57), ("gain", 22 / 11, 22 / 19)],
)
def test_what_a_change_brings_is_weighed_against_the_restarts_that_it_needs(weight, better, worse):
    # Both pairs are better then; of the jobs that ran three restart instead of one.
    limit = 2 * (better - worse) / 2
    lonely, result = swapping(limit * 0.99, weight=weight)
    assert lonely not in result
    lonely, result = swapping(limit * 1.01, weight=weight)
    assert lonely in result


def test_a_change_that_brings_nothing_is_not_made():
    grouper = Grouper(3, 8)
    for job in range(4):
        grouper.add(job, DATA, 4)
    pairs = set(map(frozenset, names(grouper)))
    for job in (3, 1):
        grouper.set_priority(job, -1)
        result = grouper.groups()
        assert {frozenset(group.jobs) for group in result} == pairs
        assert all(group.kept for group in result)


def test_what_ran_is_parted_if_others_need_its_gpus():
    grouper = Grouper(4, 12, restart_cost=10.0)
    for job in range(12):
        grouper.add(job, (1.0, 1.0, 1.0, 1.0), 4)
    (a, *_), (b, *_), (c, d, *_) = names(grouper)
    for job in (a, b, c, d):
        grouper.remove(job)
    assert sorted(map(len, names(grouper))) == [2, 3, 3]
    grouper.add("urgent", (1.0, 1.0, 1.0, 1.0), 3, priority=-1)
    assert sorted(map(len, names(grouper))) == [1, 4, 4]


def test_what_ran_stays_where_no_way_has_gpus_enough():
    grouper = Grouper(3, 8, restart_cost=10.0, max_group=2, gpu_memory=10)
    grouper.add("large", NET, 4, memory=10)
    grouper.add("x", DATA, 4, memory=1)
    grouper.add("y", DATA, 4, memory=1)
    assert names(grouper) == [("large",), ("x", "y")]
    grouper.add("z", GPU, 4, memory=1)
    assert names(grouper) == [("large",), ("x", "y")]


@pytest.mark.parametrize(("cost", "stays"), [(0.1, False), (0.2, True), (0.25, True)])
def test_a_poor_pair_stays_if_others_need_no_restart_then(cost, stays):
    grouper = Grouper(3, 14, restart_cost=cost, interference=[1, 2, 2])
    grouper.add("b1", DATA, 5)
    grouper.add("b2", DATA, 5)
    grouper.add("filler", DATA, 8)
    assert sorted(names(grouper)) == [("b1", "b2"), ("filler",)]
    grouper.remove("filler")
    grouper.add("a1", DATA, 4)
    grouper.add("a2", GPU, 4)
    kept, parted = [("b1", "b2"), ("a1",), ("a2",)], [("b1",), ("b2",), ("a1", "a2")]
    assert names(grouper) == (kept if stays else parted)


def test_what_is_kept_grows_when_gpus_are_lacking():
    grouper = Grouper(3, 8, restart_cost=10.0)
    grouper.add("d1", DATA, 4)
    grouper.add("d2", DATA, 4)
    grouper.add("d3", DATA, 4)
    pair = next(group for group in names(grouper) if len(group) == 2)
    grouper.add("n", NET, 4)
    result = {frozenset(group.jobs): group.kept for group in grouper.groups()}
    assert result[frozenset(pair)]
    assert sorted(map(len, result)) == [2, 2]


def test_what_ran_stays_where_only_it_leaves_gpus_enough():
    grouper = Grouper(3, 8, method="muri")
    for job in range(6):
        grouper.add(job, DATA, 4)
    # Three pairs do not merge to groups of three, so that one of them waits.
    assert names(grouper) == [(0, 1), (2, 3)]
    grouper = Grouper(3, 8, method="muri")
    grouper.add(0, DATA, 4)
    grouper.add(1, DATA, 4)
    assert names(grouper) == [(0,), (1,)]
    for job in range(2, 6):
        grouper.add(job, DATA, 4)
        result = names(grouper)
    assert sorted(map(len, result)) == [3, 3]


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
    assert set(names(grouper)[0]) in ({"a"}, {"a", "c"}, {"b", "c"})


def test_integers_of_numpy_are_integers():
    grouper = Grouper(3, 1000, gpu_memory=1000)
    grouper.add("a", DATA, np.uint8(200), memory=np.uint8(200))
    grouper.add("b", GPU, np.int8(100), np.float32(1.0), memory=np.int8(100))
    assert [group.gpus for group in grouper.groups()] == [200, 100]


def test_interference_is_that_of_the_beginning():
    factors = [1.0, 1.5, 1.5]
    grouper = Grouper(3, 4, interference=factors)
    grouper.add("a", DATA, 4)
    grouper.add("b", GPU, 4)
    (before,) = grouper.groups()
    factors[:] = [0.0, 0.0, 0.0]
    grouper.set_priority("a", -1)
    assert grouper.groups()[0].iteration_time == before.iteration_time


class Name:
    """A name whose comparison may fail."""

    broken = False

    def __hash__(self):
        return 1

    def __eq__(self, other):
        if Name.broken:
            raise RuntimeError("no comparison")
        return self is other


def test_names_are_compared_as_in_a_dict():
    nan = float("nan")
    grouper = Grouper(3, 8)
    grouper.add(nan, DATA, 4)
    grouper.add("a", GPU, 4)
    grouper.groups()
    grouper.remove(nan)
    grouper.check()
    assert names(grouper) == [("a",)]


def test_a_comparison_that_fails_changes_nothing(monkeypatch):
    first, second = Name(), Name()
    grouper = Grouper(3, 8)
    grouper.add(first, DATA, 4)
    grouper.add(second, GPU, 4)
    grouper.groups()
    monkeypatch.setattr(Name, "broken", True)
    for call in (grouper.remove, lambda job: grouper.add(job, DATA, 4)):
        with pytest.raises(RuntimeError, match="no comparison"):
            call(Name())
    monkeypatch.setattr(Name, "broken", False)
    grouper.check()
    assert (len(grouper), names(grouper)) == (2, [(first,), (second,)])


def test_mistakes_are_named_and_change_nothing():
    grouper = Grouper(3, 4)
    grouper.add("a", DATA, 4)
    nan = float("nan")
    for call, error, message in [
        (lambda: grouper.add("a", GPU, 4), ValueError, "job 'a' was added before"),
        (lambda: grouper.add("b", GPU, 5), ValueError, "gpus=5: allowed are 1 to 4"),
        (lambda: grouper.add("b", GPU, 1.5), TypeError, "gpus must be an integer"),
        (lambda: grouper.add("b", (1, 2), 4), ValueError, "durations must have 3 entries"),
        (lambda: grouper.add("b", (1, 2, 3, 4), 4), ValueError, "durations must have 3 entries"),
        (lambda: grouper.add("b", (1, 2, nan), 4), ValueError, "durations"),
        (lambda: grouper.add("b", GPU, 4, priority=nan), ValueError, "priority is not a number"),
        (lambda: grouper.add("b", GPU, 4, priority="x"), TypeError, "priority must be a float"),
        (lambda: grouper.add("b", GPU, 4, memory=1), ValueError, "gpu_memory was not given"),
        (lambda: grouper.add("b", GPU, 4, memory=0.0), TypeError, "memory must be an integer"),
        (lambda: grouper.add("b", GPU, 4, priority=10**400), ValueError, "priority is too large"),
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
        (
            (3, 4),
            {"weight": len},
            TypeError,
            "weight must be 'efficiency' or 'gain', not a function",
        ),
        ((3, 4), {"max_group": 9}, ValueError, "max_group=9"),
        ((4, 4), {"model": "data2"}, ValueError, "model 'data2' needs"),
        ((3, 4), {"method": "x"}, ValueError, "method must be one of"),
    ]:
        with pytest.raises(error, match=message):
            Grouper(*arguments, **options)
