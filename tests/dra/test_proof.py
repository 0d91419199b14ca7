"""`DraCluster.verify` refuses what breaks a rule, and accepts all else.

The oracle is that of the search through all assignments, which reads the objects themselves.
"""

import copy
from itertools import combinations

import pytest
from dra import worlds
from dra.test_allocator_against_all_assignments import Judge, alternatives_of, cases
from dra.worlds import claim, cluster_of, device, either, published_slice, request
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.dra import KubernetesFeatures, Node, ResourceClaim, gather_pools
from hivecore.dra.proof import verify_allocations
from hivecore.dra.result import DeviceResult, write_allocation
from hivecore.errors import CertificateError


def with_held(slices, held):
    cluster = cluster_of(*slices)
    for i, ((pool, name), amounts) in enumerate(held):
        shared = {"shareID": "1", "consumedCapacity": {"memory": "1"}} if amounts else {}
        taken = worlds.allocation({"request": "r", "device": name} | shared, pool=pool)
        cluster.update(worlds.holder(f"held {i}", taken))
    return cluster


@given(cases(), st.sampled_from(["first", "best", "any"]))
@examples(500)
def test_what_a_cluster_decides_is_accepted(case, mode):
    slices, claims, held = case
    cluster = with_held(slices, held)
    decision = cluster.allocate(claims, "n1", mode)
    if decision.outcome == "allocated":
        cluster.verify(decision)
        cluster.commit(decision)
        with pytest.raises(CertificateError, match="has devices already"):
            cluster.verify(decision)
    else:
        with pytest.raises(ValueError, match="not 'allocated'"):
            cluster.verify(decision)


@st.composite
def assignments(draw):
    """A case, its judge, and for each request an alternative with devices that may be wrong."""
    slices, claims, held = draw(cases())
    judge = Judge(slices, claims, held)
    chosen, is_right = [], True
    for number, of in enumerate(claims):
        for item in of["spec"]["devices"]["requests"]:
            name, wanted = draw(st.sampled_from(alternatives_of(item)))
            suited = judge.candidates(wanted)
            is_all = wanted.get("allocationMode") == "All"
            count = len(suited) if is_all else wanted.get("count", 1)
            right = [*combinations(suited, count)] if count else []
            wrong = [*combinations(judge.order, max(1, count + draw(st.integers(-1, 1))))]
            keys = draw(st.sampled_from(right * 4 + wrong[:9] + [()]))
            is_right = is_right and keys in right
            chosen += [(number, name, wanted, key) for key in keys]
    return slices, claims, held, chosen, is_right and judge.is_valid(chosen), judge


@given(assignments())
@examples(500)
def test_an_assignment_is_accepted_exactly_if_it_is_valid(case):
    slices, claims, held, chosen, is_valid, judge = case
    facts, records = with_held(slices, held).facts(), [ResourceClaim.of(claim) for claim in claims]
    pools = gather_pools(facts.slices, Node("n1"), facts.features)
    seen = {of.id[1:]: of for pool in pools for of in pool.devices}
    results = [[] for _ in claims]
    for number, name, wanted, key in chosen:
        is_share = judge.can_share(key) and not wanted.get("adminAccess")
        try:
            consumed = judge.amounts(wanted, key) or {"memory": 1} if is_share else None
        except TypeError:
            consumed = {"memory": 1}
        terms = dict(terms_of(records[number]))[name]
        share = f"share {number} {name} {key}" if is_share else ""
        results[number].append(DeviceResult(name, terms, seen[key], consumed, share))
    written = [
        write_allocation(record, of, facts.classes, "n1", True)
        for record, of in zip(records, results, strict=True)
    ]
    try:
        verify_allocations(facts, "n1", records, written)
    except CertificateError:
        assert not is_valid
    else:
        assert is_valid


def terms_of(record):
    for item in record.requests:
        if item.exactly:
            yield item.name, item.exactly
        yield from ((f"{item.name}/{sub.name}", sub) for sub in item.first_available)


# --- single mutants


def rich_cluster(features=worlds.EVERY_GATE):
    """Two nodes with devices of all kinds; n1 has a device in use."""
    devices = [
        device("d0", {"model": "a", "root": 1}),
        device("d1", {"model": "a", "root": 1}),
        device("d2", {"model": "a", "root": 2}),
        device("d3", {"model": "b", "root": 1}),
        device("bad", {"model": "a", "root": 1}, taints=[{"key": "k", "effect": "NoSchedule"}]),
        worlds.shared("s0", {"memory": "4"}, {"model": "s"}),
        device("half", {"model": "h"}, counters={"set": {"x": "2"}}),
        device("whole", {"model": "w"}, counters={"set": {"x": "4"}}),
    ]
    slices = [
        published_slice("s1", devices, count=2),
        worlds.counter_slice("t1", {"set": {"x": "4"}}, count=2),
        published_slice("s2", [device("d0", {"model": "a", "root": 1})], pool="q", nodeName="n2"),
        published_slice("s3", [device("d0", {"model": "a", "root": 1})], pool="r", count=2),
    ]
    config = [{"opaque": {"driver": "gpu.x", "parameters": {"mode": "fast"}}}]
    cluster = cluster_of(*slices, classes=[worlds.device_class("any", config=config)])
    cluster.update(worlds.holder("other", worlds.allocation("d1")))
    return cluster


ASKED = [
    claim(
        request("gpu", 2, where="model=a"),
        either("more", best=worlds.terms(where="model=x"), good=worlds.terms(where="model=h")),
        name="a",
    ),
    claim(request("part", where="model=s", capacity={"memory": "1"}), name="b"),
    claim(request("pair", where="model=b"), name="c", match="gpu.x/root"),
]


def swap(claim, number, **fields):
    return lambda written: written[claim]["devices"]["results"][number].update(fields)


def drop(claim, number):
    return lambda written: written[claim]["devices"]["results"].pop(number)


def repeat(claim, number):
    results = lambda written: written[claim]["devices"]["results"]  # noqa: E731
    return lambda written: results(written).append(results(written)[number])


@pytest.mark.parametrize(
    ("mutate", "reason"),
    [
        (swap(0, 0, device="d9"), "no complete pool of the node has it"),
        (swap(0, 0, pool="q"), "no complete pool of the node has it"),
        (swap(0, 0, pool="r"), "no complete pool of the node has it"),
        (swap(0, 0, driver="x"), "no complete pool of the node has it"),
        (swap(0, 0, device="d1"), "two owners"),
        (swap(0, 0, device="d2"), "a device is given twice"),
        (swap(0, 0, device="d3"), "does not suit the request"),
        (swap(0, 0, device="bad"), "taint 'k' is not tolerated"),
        (swap(0, 0, request="train"), "KeyError 'train'"),
        (swap(0, 2, request="more"), "KeyError 'more'"),
        (swap(0, 2, request="more/best"), "does not suit the request"),
        (swap(0, 0, adminAccess=True), "adminAccess is not None"),
        (swap(0, 0, tolerations=[{"key": "k"}]), r"tolerations is not \[\]"),
        (swap(0, 0, bindingConditions=["ready"]), r"bindingConditions is not \[\]"),
        (swap(0, 0, shareID="1"), "shareID is '1'"),
        (swap(0, 0, consumedCapacity={"memory": "1"}), "it consumes"),
        (swap(1, 0, consumedCapacity={"memory": "2"}), "it consumes"),
        (swap(1, 0, consumedCapacity={}), "it consumes"),
        (swap(1, 0, shareID=""), "shareID is ''"),
        (drop(0, 0), "1 device instead of 2"),
        (drop(0, 2), r"devices for \[\]"),
        (repeat(0, 0), "a device is given twice"),
        (repeat(2, 0), "a device is given twice"),
        (lambda written: written.pop(), "2 allocations, 3 claims"),
        (lambda written: written[0].pop("devices"), "KeyError 'devices'"),
        (lambda written: written[0].pop("nodeSelector"), "nodeSelector is None"),
        (lambda written: written[0]["devices"].pop("config"), r"config is \[\]"),
    ],
)
def test_a_mutant_is_refused(mutate, reason):
    cluster = rich_cluster()
    decision = cluster.allocate(ASKED, "n1")
    cluster.verify(decision)
    written = copy.deepcopy([*decision.allocations])
    mutate(written)
    with pytest.raises(CertificateError, match=reason):
        verify_allocations(cluster.facts(), "n1", decision.claims, written)


@pytest.mark.parametrize(
    ("of", "results", "reason"),
    [
        (claim(request("r", 2), match="gpu.x/root"), ["d0", "d2"], "the values of gpu.x/root"),
        (claim(request("r", 2), distinct="gpu.x/root"), ["d0", "d3"], "the values of gpu.x/root"),
        (claim(request("r", 2)), ["half", "whole"], "6 of x in use, it has 4"),
        (claim(request("r", "All", where="model=a")), ["d0", "d2"], "are not complete"),
        (claim(request("r", where="shape=a")), ["d0"], "a selector fails"),
    ],
)
def test_devices_that_do_not_go_together_are_refused(of, results, reason):
    facts, record = rich_cluster().facts(), ResourceClaim.of(of)
    pools = gather_pools(facts.slices, Node("n1"), facts.features)
    seen = {of.id.device: of for pool in pools for of in pool.devices}
    terms = record.requests[0].exactly
    given = [DeviceResult("r", terms, seen[name], None, "") for name in results]
    written = write_allocation(record, given, facts.classes, "n1", True)
    with pytest.raises(CertificateError, match=reason):
        verify_allocations(facts, "n1", [record], [written])


def test_features_that_are_off_are_not_used():
    cluster = rich_cluster()
    decision = cluster.allocate(ASKED, "n1")
    facts = cluster.facts()._replace(features=KubernetesFeatures.of("1.34"))
    with pytest.raises(CertificateError, match="DRAConsumableCapacity is off"):
        verify_allocations(facts, "n1", decision.claims[1:2], decision.allocations[1:2])


def test_decisions_of_a_gang_are_verified_together():
    cluster = cluster_of(worlds.gpus(2), worlds.gpus(2, name="t", pool="q", nodeName="n2"))
    gang = cluster.schedule_gang([[claim(request("r", 2), name=f"p{i}")] for i in range(2)])
    cluster.verify(gang)
    first, second = gang.decisions
    twice = cluster.allocate(second.claims, first.node)
    with pytest.raises(CertificateError, match="two owners"):
        cluster.verify(gang._replace(decisions=(first, twice)))
    with pytest.raises(CertificateError, match="pods are on"):
        cluster.verify(gang._replace(nodes=("n1", "n9")))
