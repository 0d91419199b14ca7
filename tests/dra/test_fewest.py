"""Modes that minimize give the least of all answers with the best alternatives.

The oracle is that of the search through all assignments.
"""

from itertools import product

import pytest
from dra.test_allocator_against_all_assignments import (
    Judge,
    alternatives_of,
    cases,
    consumed,
    limits,
)
from dra.test_proof import with_held
from dra.worlds import (
    claim,
    cluster_of,
    counter_slice,
    device,
    either,
    plain_steps,
    published_slice,
    request,
    terms,
)
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

ROOT = "gpu.x/root"


def least_values(judge, keys):
    """How many values are enough for each device to have one; without the attribute: none."""
    sets = []
    for key in keys:
        of = judge.devices[key]["attributes"].get("root", {"": None})
        sets.append(
            {
                (kind.rstrip("s"), x)
                for kind, n in of.items()
                for x in (n if type(n) is list else [n])
            }
        )
    return min((len({*chosen}) for chosen in product(*sets)), default=0)


def blocks_begun(judge, keys):
    def sets_of(key):
        return {
            (key[0], use["counterSet"]) for use in judge.devices[key].get("consumesCounters", [])
        }

    in_use = {entry for key, _ in judge.held for entry in sets_of(key)}
    return len({entry for key in keys for entry in sets_of(key)} - in_use)


def wasted(judge, uses):
    """How much memory devices give that was not requested."""
    waste = 0
    for (number, name), key in uses:
        of = judge.devices[key]
        requests = judge.claims[number]["spec"]["devices"]["requests"]
        terms = next(dict(alternatives_of(request)).get(name) for request in requests
                     if name in dict(alternatives_of(request)))  # fmt: skip
        taken = {name: int(x["value"]) for name, x in of.get("capacity", {}).items()}
        if judge.can_share(key):
            taken = consumed(terms, of)
        wanted = (terms.get("capacity") or {}).get("requests", {})
        waste += taken.get("memory", 0) - int(wanted.get("memory", 0))
    return waste


MODES = ["fewest blocks", f"fewest {ROOT}", "least waste of memory"]


@given(cases(), st.sampled_from(MODES), st.sampled_from([512, 0]), st.just({}) | limits)
@examples(300)
def test_no_answer_with_the_best_alternatives_uses_less(case, mode, steps, within):
    slices, claims, held = case
    judge, cluster = Judge(slices, claims, held, within), with_held(slices, held)
    with plain_steps(steps):
        decision = cluster.allocate(claims, "n1", mode, within)
        best = cluster.allocate(claims, "n1", "best", within)
    assert decision.outcome == best.outcome
    if decision.outcome != "allocated":
        return
    cluster.verify(decision)
    count = dict(zip(MODES, (blocks_begun, least_values, wasted), strict=True))[mode]
    admin = [is_admin(claims[of.claim], of.request) for of in best.devices]

    def touched(keys):
        uses = [
            (of, key) for of, key, skip in zip(best.devices, keys, admin, strict=True) if not skip
        ]
        return count(judge, [(of[:2], key) if count is wasted else key for of, key in uses])

    names = [of.request for of in best.devices]
    assert [of.request for of in decision.devices] == names
    least = min(
        touched([key for _, key, _ in answer])
        for answer in judge.answers("best")
        if [name for name, _, _ in answer] == names
    )
    assert decision.fewest == (least, least)
    assert touched([of.device[1:] for of in decision.devices]) == least
    cluster.commit(decision)
    cluster.check()


def is_admin(of, name):
    requests = of["spec"]["devices"]["requests"]
    return any(
        dict(alternatives_of(request)).get(name, {}).get("adminAccess") for request in requests
    )


def gpus_in_parts(count):
    devices = [
        device(f"g{i}-{size}-{n}", {"model": size}, counters={f"gpu{i}": {"memory": memory}})
        for i in range(count)
        for size, memory, of in (("half", "2", 2), ("small", "1", 4))
        for n in range(of)
    ]
    sets = {f"gpu{i}": {"memory": "4"} for i in range(count)}
    return [published_slice("s", devices, count=2), counter_slice("c", sets, count=2)]


def test_the_node_on_which_fewest_values_are_used_is_chosen():
    def node(name, roots):
        devices = [device(f"d{i}", {"root": root}) for i, root in enumerate(roots)]
        return published_slice(f"s-{name}", devices, pool=name, nodeName=name)

    cluster = cluster_of(node("n1", "abc"), node("n2", "aabb"), node("n3", "abbba"))
    requests = [claim(request("r", 3))]
    decision = cluster.schedule(requests, mode=f"fewest {ROOT}")
    assert (decision.node, decision.fewest) == ("n3", (1, 1))
    assert [of.device.device for of in decision.devices] == ["d1", "d2", "d3"]
    assert cluster.allocate(requests, "n1", f"fewest {ROOT}").fewest == (3, 3)
    copied = cluster.copy()
    copied.commit(decision)
    copied.check()
    choice = either("r", good=terms(3, where="root=c"), poor=terms(2))
    assert cluster.schedule([claim(choice)], mode=f"fewest {ROOT}").fewest == (1, 1)


def test_a_limit_of_work_leaves_a_bound():
    devices = [device(f"d{i}", {"root": i}) for i in range(12)]
    cluster = cluster_of(published_slice("s", devices), limit=40)
    decision = cluster.allocate([claim(request("r", 6))], "n1", f"fewest {ROOT}")
    assert decision.outcome == "allocated"
    value, bound = decision.fewest
    assert (value, bound < 6) == (6, True)


@pytest.mark.parametrize("mode", ["fewest", "fewest ", "fewest root", "fewest a/b/c", 3, "quick"])
def test_wrong_modes_are_refused(mode):
    cluster = cluster_of(*gpus_in_parts(1))
    for ask in (cluster.fits, cluster.schedule, lambda of, mode: cluster.allocate(of, "n1", mode)):
        with pytest.raises((TypeError, ValueError), match="mode"):
            ask([claim(request("r"))], mode=mode)
