"""Reclaiming ends: in small trees every state is visited that decisions lead to while nothing else
happens, and none of them comes again.

That the search finds cycles where there are some is shown without the rule that an evicted owner
may borrow only after something has happened.
"""

from random import Random

import pytest
from profiles import SCALE, seeds, times
from quotas.decisions.searches import Kernel, Plain, Search, drawn

from hivecore.quotas import Quota, QuotaRequest

SETTINGS = [
    {"limit": "max"},
    {"limit": "max", "check_ancestors": False},
    {"limit": "max", "scale_min": False},
    {"limit": "max", "guarantee": True},
    {},
    {"check_ancestors": False},
]


def two_that_grow(make):
    """a and b may use 1 of 2 each; there is an owner of one or two members in either."""
    quotas = [Quota(name, max={"x": 2}, min={"x": 1}) for name in "ab"]
    requests = [QuotaRequest(f"of {q}", q, {"x": 1}, count=2, min_count=1) for q in "ab"]
    return make({"x": 2}, quotas, requests, {"limit": "max"})


def begun(rng, start, requests):
    """Some run already, as it may be after limits have changed."""
    for request in rng.sample(requests, rng.randint(0, 3)):
        start.start(request, rng.randint(1, request.count))


@pytest.mark.parametrize("make", [Kernel, Plain])
def test_two_owners_that_borrow_in_turn_would_evict_each_other_forever(make):
    start = two_that_grow(make)
    ruled = Search(start)
    assert ruled.cycle is None
    assert ruled.reclaims > 0
    start.forgets = True
    steps = Search(start).cycle
    assert sorted(steps) == [
        ("bind", "of a", ()),
        ("bind", "of b", ()),
        ("preempt", "of a", ("of b",)),
        ("preempt", "of b", ("of a",)),
    ]


def test_without_the_rule_there_are_cycles_in_trees_by_chance_and_with_it_none():
    cycles = 0
    for seed in range(max(times(100), 100)):
        case = drawn(Random(f"{seed} rule"), 4, growing=True)
        start = Kernel(*case, {"limit": "max"})
        assert Search(start).cycle is None, (seed, case)
        start.forgets = True
        cycles += Search(start).cycle is not None
    assert cycles > 1


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_no_state_comes_again_wherever_it_begins(settings):
    reclaims = 0
    for seed in seeds(80):
        rng = Random(f"{seed} {settings}")
        case = drawn(rng, 6, outside=seed % 8 == 7, growing=seed % 4 == 0)
        start = Kernel(*case, settings)
        begun(rng, start, case[2])
        search = Search(start)
        assert search.cycle is None, (seed, case, search.cycle)
        reclaims += search.reclaims
    # What runs is within the runtime where that is guaranteed.
    if "guarantee" in settings:
        assert reclaims == 0
    elif SCALE >= 1:
        assert reclaims > 0


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_twin_visits_as_many_states_as_the_kernel(settings):
    for seed in seeds(4):
        rng = Random(f"{seed} {settings} twin")
        case = drawn(rng, 4)
        starts = Kernel(*case, settings), Plain(*case, settings)
        chances = [Random(seed) for _ in starts]
        for start, chance in zip(starts, chances, strict=True):
            begun(chance, start, case[2][:3])
        kernel, plain = (Search(start) for start in starts)
        assert kernel.cycle is None
        assert plain.cycle is None
        assert (kernel.states, kernel.reclaims) == (plain.states, plain.reclaims)


@pytest.mark.parametrize("settings", [SETTINGS[0], SETTINGS[2]], ids=str)
def test_what_is_used_beyond_runtimes_falls_with_every_reclaim(settings):
    """The argument itself: runtimes stay unless less is used beyond maximums, of which there is
    never more, and an owner that is admitted by entitlement adds nothing.
    """
    steps = {"bind": 0, "preempt": 0}

    def seen(before, kind, after):
        steps[kind] += 1
        assert after.beyond() <= before.beyond()
        if after.beyond() < before.beyond():
            return
        assert after.runtimes() == before.runtimes()
        if kind == "preempt":
            assert after.excess() < before.excess()

    for seed in seeds(40):
        rng = Random(f"{seed} {settings} falls")
        case = drawn(rng, 4)
        start = Kernel(*case, settings)
        begun(rng, start, case[2])
        assert Search(start, seen).cycle is None
    assert SCALE < 1 or min(steps.values()) > 20
