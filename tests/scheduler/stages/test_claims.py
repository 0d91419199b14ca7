"""Device claims in a scheduler: starts, evictions, gangs, saved states, and the twin as oracle.

The oracle tries all nodes for all pods with the readable twin, on the published objects.
"""

import copy
import json
import random
from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import pytest
from dra.worlds import (
    World,
    claim,
    counter_slice,
    device,
    device_class,
    either,
    object_of,
    published_slice,
    request,
    shared,
)
from profiles import seeds
from scheduler.lives import rack_network

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.dra import DraCluster, KubernetesFeatures, ResourceClaim, matches
from hivecore.errors import InvariantError
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import (
    FreeNodes,
    Job,
    Preempt,
    Promote,
    Reject,
    Role,
    Scheduler,
    Sharing,
    Start,
    Wait,
    Where,
    plain_record,
    record_of_plain,
    replay,
)
from hivecore.verify import verify_actions, verify_start

NODES = ("n0", "n1", "n2")
IS_A = "device.attributes['gpu.x'].model == 'a'"


def slice_of(node, devices):
    return published_slice(f"s-{node}", devices, pool=node, nodeName=node)


def partitions(node):
    """A GPU as a whole, as two halves, and as three smaller parts."""
    sizes = {"whole": 4, "half0": 2, "half1": 2, "small0": 1, "small1": 1, "small2": 1}
    parts = [
        device(name, {"model": name[:-1]}, counters={"gpu": {"memory": size}})
        for name, size in sizes.items()
    ]
    counters = counter_slice(f"c-{node}", {"gpu": {"memory": 4}}, pool=f"{node}-mig", count=2)
    published = published_slice(f"m-{node}", parts, pool=f"{node}-mig", count=2, nodeName=node)
    counters["spec"]["nodeName"] = node
    return [counters, published]


def plain_slices(count=4):
    models = "aabb"
    return [
        slice_of(node, [device(f"d{i}", {"model": models[i % 4]}) for i in range(count)])
        for node in NODES
    ]


def cluster(*slices):
    dra = DraCluster(KubernetesFeatures.of("1.36"))
    dra.update(*[object_of("ResourceSlice", slice) for slice in slices or plain_slices()])
    dra.update(object_of("DeviceClass", device_class()))
    return dra


def gpus(count, name="gpu", **fields):
    return claim(request("r", count, **fields), name=name)


def job(name, count, pods=1, tenant="t", role=(), **arguments):
    roles = [Role("w", pods, claims=[gpus(count)], **dict(role))]
    return Job(name, tenant, roles, **arguments)


def decided(scheduler, *jobs, now=0.0):
    for job in jobs:
        scheduler.submit(job, now)
    before = scheduler.copy()
    actions = scheduler.decide(now)
    scheduler.check()
    started = {action.job for action in actions if isinstance(action, Start)}
    verify_actions(actions, {name: scheduler.job(name) for name in started}, before)
    return actions


def devices_of(pod):
    return [
        (result["pool"], result["device"])
        for _, allocation in pod.claims
        for result in allocation["devices"]["results"]
    ]


def test_a_job_starts_with_an_allocation_for_each_claim():
    scheduler = Scheduler(claims=cluster())
    roles = [Role("w", 2, claims=[gpus(3), gpus(1, "spare")])]
    (start,) = decided(scheduler, Job("train", "t", roles))
    assert [pod.node for pod in start.pods] == ["n0", "n1"]
    first = dict(start.pods[0].claims)
    assert [result["device"] for result in first["gpu"]["devices"]["results"]] == ["d0", "d1", "d2"]
    assert [result["device"] for result in first["spare"]["devices"]["results"]] == ["d3"]
    assert scheduler.status("train").pods[0].claims == start.pods[0].claims
    assert scheduler.claims.claims[0] == "/train/w/0/gpu"
    assert "/train/w/1/spare" in scheduler.claims
    scheduler.finish("train", 1.0)
    assert scheduler.claims.claims == ()
    scheduler.check()


def test_a_start_with_devices_that_its_claims_cannot_have_is_refused():
    scheduler, train = Scheduler(claims=cluster()), job("train", 2, pods=2)
    decided(scheduler, job("first", 1))
    scheduler.submit(train, 0.0)
    before = scheduler.copy()
    (start,) = scheduler.decide(0.0)
    verify_start(start, train, before)
    first, second = start.pods
    swapped = (("gpu", second.claims[0][1]),)
    for pods, reason in (
        ((first.replace(claims=()), second), r"claims: 'train/w/0' has allocations for \[\]"),
        ((first.replace(claims=swapped), second), "claims: 'train' on 'n0': gpu.x/n1/d0 for r"),
        ((first, second.replace(node="n2")), "claims: 'train' on 'n2'"),
        ((first, second.replace(node="n0", claims=first.claims)), "two owners"),
    ):
        with pytest.raises(InvariantError, match=reason):
            verify_start(start.replace(pods=pods), train, before)


def test_a_job_that_no_empty_node_serves_is_rejected_unless_nodes_may_come():
    (reject,) = decided(Scheduler(claims=cluster()), job("big", 5))
    assert isinstance(reject, Reject)
    assert "request r wants 5;" in reject.reason
    (wait,) = decided(Scheduler(claims=cluster(), growing=True), job("big", 5))
    assert isinstance(wait, Wait)
    (reject,) = decided(Scheduler(claims=cluster()), job("gang", 4, pods=4))
    assert reject.reason == "no nodes can serve the claims of all pods together"


def test_changes_of_the_claims_cluster_count_after_touch():
    scheduler = Scheduler(claims=cluster(), growing=True)
    decided(scheduler, job("big", 5))
    more = slice_of("n9", [device(f"d{i}") for i in range(6)])
    scheduler.claims.update(object_of("ResourceSlice", more))
    scheduler.touch()
    (start,) = decided(scheduler, now=1.0)
    assert start.pods[0].node == "n9"


def others(name, node, *devices):
    """A claim of another scheduler."""
    results = [
        {"request": "r", "driver": "gpu.x", "pool": node, "device": device} for device in devices
    ]
    status = {"allocation": {"devices": {"results": results}}}
    return {"kind": "ResourceClaim", "metadata": {"name": name, "uid": name}, "status": status}


def test_what_kubernetes_reports_is_an_event_of_the_log(tmp_path):
    scheduler = Scheduler(claims=cluster(), log=tmp_path / "log")
    taken = [others(node, node, "d0", "d1", "d2", "d3") for node in NODES]
    scheduler.update_claims(0.0, objects=taken)
    (wait,) = decided(scheduler, job("j", 2))
    assert isinstance(wait, Wait)
    scheduler.update_claims(1.0, release=["n1"])
    (start,) = decided(scheduler, now=1.0)
    assert start.pods[0].node == "n1"
    more = object_of("ResourceSlice", slice_of("n9", [device("d0")]))
    scheduler.update_claims(2.0, objects=[more], remove=[("ResourceSlice", "s-n0")])
    assert scheduler.claims.nodes == ("n1", "n2", "n9")
    decided(scheduler, job("k", 1), now=2.0)
    scheduler.sync()
    again = replay(tmp_path / "log")
    assert again.claims.claims == scheduler.claims.claims
    assert again.claims.objects == scheduler.claims.objects


def test_a_job_that_slices_leave_without_a_node_is_rejected():
    scheduler = Scheduler(claims=cluster())
    scheduler.update_claims(0.0, objects=[others(node, node, "d0") for node in NODES])
    decided(scheduler, job("j", 4))
    scheduler.update_claims(1.0, remove=[("ResourceSlice", f"s-{node}") for node in NODES])
    (reject,) = decided(scheduler, now=1.0)
    assert isinstance(reject, Reject)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"objects": [others("c", "n0", "d1"), others("d", "n0", "d0")]}, ValueError),
        ({"objects": [{"kind": "Pod"}]}, ValueError),
        ({"objects": ["pod"]}, TypeError),
        ({"release": ["x"]}, KeyError),
        ({"remove": [("ResourceSlice", "x")]}, KeyError),
        ({"remove": [("Pod", "x")]}, ValueError),
        ({"release": ["held", "x"], "objects": [others("c", "n0", "d1")]}, KeyError),
        ({"release": ["held"], "objects": [others("c", "n0", "d0")] * 2, "now": -1}, ValueError),
    ],
)
def test_impossible_updates_change_nothing(arguments, error):
    scheduler = Scheduler(claims=cluster())
    scheduler.update_claims(0.0, objects=[others("held", "n0", "d0")])
    before = scheduler.to_bytes()
    with pytest.raises(error):
        scheduler.update_claims(**{"now": 0.0, **arguments})
    assert scheduler.to_bytes() == before
    scheduler.check()
    with pytest.raises(ValueError, match="there are no device claims"):
        Scheduler().update_claims(0.0)


@pytest.mark.parametrize("wanted", range(1, 8))
def test_as_few_jobs_are_evicted_as_hold_the_devices_that_are_missing(wanted):
    devices = slice_of("n0", [device(f"d{i}", {}) for i in range(7)])
    scheduler = Scheduler(claims=cluster(devices), immediate=True)
    decided(scheduler, *(job(f"weak{i}", 1, guaranteed=False) for i in range(7)))
    actions = decided(scheduler, job("late", wanted), now=1.0)
    assert [type(action) for action in actions[: wanted + 1]] == [*[Preempt] * wanted, Start]


@pytest.mark.parametrize("immediate", [True, False])
def test_a_guaranteed_job_evicts_the_opportunistic_job_that_holds_the_devices(immediate):
    scheduler = Scheduler(claims=cluster(), immediate=immediate)
    decided(scheduler, *(job(f"kept{i}", 3) for i in range(2)), job("spare", 3, guaranteed=False))
    actions = decided(scheduler, job("late", 4), now=1.0)
    assert actions[0] == Preempt("spare", "late", "opportunistic")
    if not immediate:
        scheduler = Scheduler.from_bytes(scheduler.to_bytes())
        # The device that no job holds is reserved.
        assert decided(scheduler, job("small", 1, guaranteed=False), now=2.0)[0].job == "small"
        assert scheduler.status("small").pods[0].node == "n0"
        assert decided(scheduler, job("one", 2, guaranteed=False), now=2.0)[0].job == "one"
        scheduler.stopped("spare", 3.0)
        actions = decided(scheduler, now=3.0)
    start = next(action for action in actions if isinstance(action, Start))
    assert (start.job, start.pods[0].node, len(devices_of(start.pods[0]))) == ("late", "n2", 4)
    scheduler.finish("late", 4.0)
    scheduler.check()


def test_pods_of_a_gang_on_two_nodes_share_what_both_nodes_see():
    common = [device(f"c{i}", {"model": "b"}) for i in range(2)]
    own = [slice_of(node, [device("d", {"model": "a"})]) for node in NODES]
    own.append(published_slice("common", common, pool="common", allNodes=True))
    both = claim(request("r", where=IS_A), request("q", where=IS_A.replace("'a'", "'b'")))
    scheduler = Scheduler(claims=cluster(*own))
    (start,) = decided(scheduler, Job("gang", "t", [Role("w", 2, claims=[both])]))
    assert [devices_of(pod) for pod in start.pods] == [
        [("n0", "d"), ("common", "c0")],
        [("n1", "d"), ("common", "c1")],
    ]
    (wait,) = decided(scheduler, Job("more", "t", [Role("w", 3, claims=[both])]))
    assert isinstance(
        wait, Wait
    )  # not rejected: nodes are chosen one after the other, which proves nothing


def shares(name="slice"):
    return claim(request("r", 1, capacity={"memory": "3"}), name=name)


def sharing():
    policy = {"value": "8", "requestPolicy": {"default": "1", "validRange": {"min": "1"}}}
    return [slice_of(node, [shared("d", {"memory": policy})]) for node in NODES[:1]]


def test_a_job_is_written_with_its_claims_as_kubernetes_writes_them():
    config = [{"opaque": {"driver": "gpu.x", "parameters": {"a": {}}}}]
    given = [
        claim(
            either("r", big={"deviceClassName": "any", "count": 2}, small={"deviceClassName": "b"}),
            request("s", capacity={"memory": "1500m"}),
            name="gpu",
            distinct="gpu.x/model",
            config=config,
        )
    ]
    with_claims = Job("j", "t", [Role("w", claims=given)])
    plain = json.loads(json.dumps(plain_record(with_claims)))
    assert plain["roles"][0]["claims"][0]["metadata"] == {"name": "gpu"}
    assert record_of_plain(Job, plain) == with_claims
    assert hash(record_of_plain(Job, plain)) == hash(with_claims)
    assert Role("w", claims=[ResourceClaim.of(given[0])]) == with_claims.roles[0]


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ([gpus(1), gpus(2)], "claims:"),
        ([gpus(1, "a/b")], "claims: 'a/b' has a uid, an allocation, or '/' in its name"),
        ([ResourceClaim("c", uid="u")], "claims: 'c' has a uid"),
    ],
)
def test_wrong_templates_are_refused(claims, says):
    with pytest.raises(ValueError, match=says):
        Role("w", claims=claims)
    with pytest.raises(TypeError, match="claims must hold ResourceClaims, not int"):
        Role("w", claims=[1])


def network(**free):
    racks = {node: f"r{int(node[1]) // 2}" for node in NODES}
    return rack_network(racks, **(free or {"gpu": 8}))


def tree(**most):
    return QuotaTree([Quota("t", max=most)], total=most)


@pytest.mark.parametrize(
    "parts",
    [{}, {"quotas": tree(gpu=8)}, {"topology": network()}],
    ids=["nothing", "quotas", "network"],
)
def test_claims_that_no_part_serves_are_refused_at_submit(parts):
    scheduler = Scheduler(**parts)
    with pytest.raises(ValueError, match=r"claims=\('gpu',\): no part enforces it; claims would"):
        scheduler.submit(job("j", 1), 0.0)


def test_constraints_that_claims_do_not_enforce_are_refused():
    scheduler = Scheduler(claims=cluster(), topology=network())
    with pytest.raises(ValueError, match=r"where\.must='rack': topology places no pods of role"):
        scheduler.submit(job("j", 1, where=Where(must="rack")), 0.0)
    scheduler.submit(job("j", 1, role={"gpus": 1}, where=Where(must="rack")), 0.0)
    assert isinstance(scheduler.decide(0.0)[0], Start)


def test_a_job_names_the_nodes_of_its_claims():
    scheduler = Scheduler(claims=cluster())
    (start,) = decided(scheduler, job("j", 1, where=Where(nodes=["n2", "elsewhere"])))
    assert start.pods[0].node == "n2"


def test_a_job_waits_for_the_nodes_that_it_names_while_they_are_unhealthy():
    scheduler = Scheduler(claims=cluster())
    scheduler.set_node("n2", False, 0.0)
    (wait,) = decided(scheduler, job("j", 1, where=Where(nodes=["n2"])))
    assert isinstance(wait, Wait)
    scheduler.set_node("n2", True, 1.0)
    (start,) = decided(scheduler, now=1.0)
    assert start.pods[0].node == "n2"


@pytest.mark.parametrize(
    "others", [{}, {"topology": network}, {"devices": lambda: machines(NODES)}]
)
def test_no_claims_on_unhealthy_nodes(others):
    scheduler = Scheduler(claims=cluster(), **{name: make() for name, make in others.items()})
    scheduler.set_node("n0", False, 0.0)
    scheduler = Scheduler.from_bytes(scheduler.to_bytes())
    assert scheduler.summary().unhealthy == ("n0",)
    (start,) = decided(scheduler, job("one", 1))
    assert start.pods[0].node == "n1"
    scheduler.set_node("n0", True, 1.0)
    (start,) = decided(scheduler, job("two", 4), now=1.0)
    assert start.pods[0].node == "n0"
    scheduler.remove_node("n0", 2.0)
    scheduler.check()
    actions = decided(scheduler, now=2.0)
    assert [type(action).__name__ for action in actions] == ["Stop", "Start"]
    assert actions[1].pods[0].node == "n2"


def test_an_unhealthy_node_whose_slices_leave_is_unknown_until_they_return():
    scheduler = Scheduler(claims=cluster())
    scheduler.set_node("n0", False, 0.0)
    scheduler.update_claims(0.0, remove=[("ResourceSlice", "s-n0")])
    assert scheduler.summary().unhealthy == ()
    decided(scheduler, *[job(name, 4) for name in ("one", "two", "three")])
    assert [change.kind for change in scheduler.explain("three").changes] == ["release"]
    scheduler.update_claims(1.0, objects=[object_of("ResourceSlice", plain_slices()[0])])
    assert scheduler.summary().unhealthy == ("n0",)
    assert ("n0",) in [change.nodes for change in scheduler.explain("three").changes]
    scheduler.check()


def test_an_unknown_node_is_a_key_error():
    with pytest.raises(KeyError, match="n7"):
        Scheduler(claims=cluster()).set_node("n7", False, 0.0)


def machines(nodes=NODES, gpus=8):
    return DeviceCluster(dict.fromkeys(nodes, NodeDevices.uniform(gpus=gpus)))


def cells(size=8, owned=3):
    chain = Chain(["gpu", "node"], [size], 3, nodes=NODES)
    return CellCluster(ClusterSpec({"H100": chain}, {"t": {"H100": {"node": owned}}}))


BESIDE = {
    "network": lambda: {"topology": network()},
    "cells": lambda: {"cells": cells()},
    "devices": lambda: {"devices": machines()},
    "network and devices": lambda: {"topology": network(), "devices": machines()},
    "cells and devices": lambda: {"cells": cells(), "devices": machines()},
    "quotas, network and devices": lambda: {
        "quotas": tree(gpu=24),
        "topology": network(),
        "devices": machines(),
    },
}


def test_a_pod_with_claims_beside_pods_that_a_network_places():
    scheduler = Scheduler(claims=cluster(), topology=network())
    roles = [Role("w", 2, gpus=8), Role("c", claims=[gpus(4)])]
    (start,) = decided(scheduler, Job("j", "t", roles))
    assert [pod.node for pod in start.pods][:2] == ["n0", "n1"]
    assert start.pods[2].node in NODES


OF_CLASS = "any.deviceclass.resource.k8s.io/devices"


@pytest.mark.parametrize(
    ("alternatives", "counted"),
    [
        (request("r"), {"any": 1}),
        (request("r", 3, deviceClassName="b"), {"b": 3}),
        (request("r", "All"), {"any": 32}),
        (
            either("r", a={"deviceClassName": "any", "count": 2}, b={"deviceClassName": "b"}),
            {"any": 2, "b": 1},
        ),
    ],
)
def test_alternatives_count_as_the_most_that_they_may_get(alternatives, counted):
    limits = {f"{name}.deviceclass.resource.k8s.io/devices": most for name, most in counted.items()}
    for less in ("", *limits):
        most = {name: amount * 2 - (name == less) for name, amount in limits.items()}
        given = cluster()
        given.update(object_of("DeviceClass", device_class("b")))
        wide = slice_of("n5", [device(f"d{i}") for i in range(8)])
        given.update(object_of("ResourceSlice", wide))
        scheduler = Scheduler(claims=given, quotas=tree(**most), growing=True)
        roles = [Role("w", 2, claims=[claim(alternatives, name="c")])]
        (action,) = decided(scheduler, Job("j", "t", roles))
        assert (f"of '{less}', and max of" in getattr(action, "reason", "")) == bool(less)


def test_quotas_reclaim_devices():
    quotas = QuotaTree(
        [
            Quota("all", max={OF_CLASS: 12}),
            Quota("a", max={OF_CLASS: 12}, min={OF_CLASS: 8}, parent="all"),
            Quota("b", max={OF_CLASS: 12}, min={OF_CLASS: 4}, parent="all"),
        ],
        total={OF_CLASS: 12},
    )
    scheduler = Scheduler(claims=cluster(), quotas=quotas, topology=network(), immediate=True)
    decided(scheduler, *(job(f"b{i}", 4, tenant="b", role={"gpus": 4}) for i in range(3)))
    actions = decided(scheduler, job("a", 4, pods=2, tenant="a", role={"gpus": 4}), now=1.0)
    assert [type(action).__name__ for action in actions][:3] == ["Preempt", "Preempt", "Start"]


# --- quotas by capacity: known once devices are chosen

MEMORY = "any.deviceclass.resource.k8s.io/capacity/memory"
SIZES = {"d0": 10, "d1": 20, "d2": 20, "d3": 40}


def sized(kind=device):
    return [
        slice_of(node, [kind(name, {}, {"memory": str(of)}) for name, of in SIZES.items()])
        for node in NODES
    ]


def used(scheduler, quota="t"):
    return scheduler.quotas.status(quota).used.get(MEMORY, 0)


def test_quotas_count_the_capacity_of_the_devices_that_were_chosen():
    scheduler = Scheduler(claims=cluster(*sized()), quotas=tree(**{MEMORY: 50}), preemption=False)
    actions = decided(scheduler, job("one", 2), job("two", 2), job("three", 1))
    assert [type(action).__name__ for action in actions] == ["Start", "Wait", "Start"]
    assert f"({MEMORY}: 30 used + 60 asked > 50)" in actions[1].reason
    assert used(scheduler) == 50
    scheduler = Scheduler.from_bytes(scheduler.to_bytes())
    assert f"({MEMORY}: 50 used + 30 asked > 50)" in scheduler.explain("two").refusals[0].reason
    with scheduler.what_if() as branch:
        branch.finish("three", 1.0)
        assert used(branch) == 30
    scheduler.finish("one", 1.0)
    (start,) = decided(scheduler, now=1.0)
    assert (start.job, used(scheduler)) == ("two", 50)
    scheduler.fail("two", 3.0)
    scheduler.finish("three", 3.0)
    assert used(scheduler) == 0
    scheduler.check()


def test_a_start_with_devices_beyond_its_quota_is_refused():
    scheduler, large = Scheduler(claims=cluster(*sized()), quotas=tree(**{MEMORY: 60})), job("l", 1)
    decided(scheduler, job("first", 2))
    scheduler.submit(large, 0.0)
    before = scheduler.copy()
    (start,) = scheduler.decide(0.0)
    (name, given), *_ = start.pods[0].claims
    forged = copy.deepcopy(given)
    forged["devices"]["results"][0]["device"] = "d3"
    pod = start.pods[0].replace(claims=((name, forged),))
    with pytest.raises(InvariantError, match=f"quota: max of 't' is 60 {MEMORY}, 70 would be used"):
        verify_start(start.replace(pods=(pod,)), large, before)


def test_quotas_count_shares_as_they_were_rounded():
    policy = {"default": "1", "validRange": {"min": "1", "step": "4"}}
    slices = [slice_of("n0", [shared("d", {"memory": {"value": "20", "requestPolicy": policy}})])]
    scheduler = Scheduler(claims=cluster(*slices), quotas=tree(**{MEMORY: 9}), preemption=False)
    requested = Job("j", "t", [Role("w", 2, claims=[shares()])])
    assert f"({MEMORY}: 0 used + 10 asked > 9)" in decided(scheduler, requested)[0].reason
    (start,) = decided(scheduler, Job("k", "t", [Role("w", claims=[shares()])]))
    assert (start.job, used(scheduler)) == ("k", 5)
    most = claim(request("r", 5, capacity={"memory": "2"}), name="gpu")
    (reject,) = decided(scheduler, Job("l", "t", [Role("w", claims=[most])]))
    assert reject.reason == f"asks for 10 of '{MEMORY}', and max of 't' is 9"


COUNTER = "any.deviceclass.resource.k8s.io/counters/x"


def mixed(node, sizes):
    """Devices of these capacities, which consume a counter."""
    where = {"pool": node, "nodeName": node, "count": 2}
    devices = [
        device(f"d{i}", {}, {"memory": f"{memory}m"}, counters={"of": {"x": str(x)}})
        for i, (memory, x) in enumerate(sizes)
    ]
    return [
        published_slice(f"s-{node}", devices, **where),
        counter_slice(f"c-{node}", {"of": {"x": "99"}}, **where),
    ]


@pytest.mark.parametrize("seed", seeds(40))
def test_a_job_starts_exactly_if_some_devices_are_within_its_quota(seed):
    rng = random.Random(seed)
    sizes = {
        node: [(500 * rng.randint(1, 6), rng.randint(0, 2)) for _ in range(rng.randint(1, 4))]
        for node in NODES[: rng.randint(1, 2)]
    }
    most = {MEMORY: rng.randint(1, 12), COUNTER: rng.randint(0, 5)}
    slices = [device for node, of in sizes.items() for device in mixed(node, of)]
    scheduler = Scheduler(claims=cluster(*slices), quotas=tree(**most), growing=True)
    for step in range(4):
        free = {(node, i) for node, of in sizes.items() for i in range(len(of))}
        for held in scheduler.claims.facts().held.values():
            free -= {(id.pool, int(id.device[1:])) for id, _, _ in held}
        left = {name: of - Fraction(scheduler.quotas.status("t").used.get(name, 0))
                for name, of in most.items()}  # fmt: skip
        counts = [rng.randint(1, 2) for _ in range(rng.randint(1, 2))]

        def exists(pods, free, memory, x):
            if memory < 0 or x < 0 or not pods:
                return memory >= 0 and x >= 0
            return any(
                exists(pods[1:], free - {*chosen},
                       memory - sum(sizes[node][i][0] for _, i in chosen),
                       x - sum(sizes[node][i][1] for _, i in chosen))
                for node in sizes
                for chosen in combinations(sorted(of for of in free if of[0] == node), pods[0])
            )  # fmt: skip

        is_possible = exists(counts, free, left[MEMORY] * 1000, left[COUNTER])
        roles = [Role(f"r{i}", claims=[gpus(n)]) for i, n in enumerate(counts)]
        actions = decided(scheduler, Job(f"j{step}", "t", roles), now=float(step))
        assert any(isinstance(action, Start) for action in actions) == is_possible
        if not is_possible:
            scheduler.cancel(f"j{step}", step + 0.5)
        elif rng.random() < 0.3:
            scheduler.finish(f"j{step}", step + 0.5)


def test_a_quota_has_other_devices_tried_on_the_nodes_that_a_network_has_chosen():
    slices = [*mixed("n0", [(4000, 1), (1000, 2), (3000, 0)]), *mixed("n1", [(9000, 0), (500, 0)])]
    for most, starts in ((4, True), (3, False)):
        quotas = tree(**{MEMORY: most, COUNTER: 2, "gpu": 9})
        scheduler = Scheduler(claims=cluster(*slices), topology=network(), quotas=quotas)
        (action,) = decided(scheduler, job("j", 1, 2, role={"gpus": 4}))
        assert isinstance(action, Start) == starts
        if starts:
            assert sorted(device for pod in action.pods for device in devices_of(pod)) == [
                ("n0", "d1"), ("n0", "d2"),
            ]  # fmt: skip


def test_a_job_that_has_waited_for_victims_gets_no_more_than_it_is_charged():
    devices = [device(f"d{i}", {}, {"memory": str(of)}) for i, of in enumerate((40, 10))]
    most = {MEMORY: 60, OF_CLASS: 9}
    scheduler = Scheduler(claims=cluster(slice_of("n0", devices)), quotas=tree(**most))
    decided(scheduler, job("weak", 2, guaranteed=False))
    scheduler.set_quota(Quota("t", max={MEMORY: 30, OF_CLASS: 9}), 0.5)
    assert decided(scheduler, job("late", 1), now=1.0)[0] == Preempt(
        "weak", "late", "opportunistic"
    )
    scheduler.stopped("weak", 2.0)
    (start,) = [action for action in decided(scheduler, now=2.0) if isinstance(action, Start)]
    assert (devices_of(start.pods[0]), used(scheduler)) == ([("n0", "d1")], 10)


QUOTAS = {
    "all": {"max": {"gpu": 24, MEMORY: 150}},
    "a": {"max": {"gpu": 24, MEMORY: 100}, "min": {"gpu": 12, MEMORY: 50}, "parent": "all"},
    "t": {"max": {"gpu": 24, MEMORY: 100}, "min": {"gpu": 12, MEMORY: 100}, "parent": "all"},
}


def capacity_tree(**settings):
    quotas = [Quota(name, **of) for name, of in QUOTAS.items()]
    return QuotaTree(quotas, total={"gpu": 24, MEMORY: 150}, **settings)


class BrokenError(Exception):
    pass


@pytest.mark.parametrize("call", ["commit", "allocate", "release"])
def test_an_error_of_the_cluster_leaves_the_state_as_it_was(call, monkeypatch):
    scheduler = Scheduler(claims=cluster(), topology=network(), immediate=True)
    decided(scheduler, *(job(f"j{i}", 3, role={"gpus": 1}, guaranteed=False) for i in range(3)))
    scheduler.submit(job("late", 4, role={"gpus": 1}), 1.0)
    before, original, calls = scheduler.to_bytes(), getattr(DraCluster, call), []

    def broken(*arguments, **named):
        calls.append(call)
        if len(calls) > 1 or call == "release":
            raise BrokenError
        return original(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(DraCluster, call, broken)
        with pytest.raises(BrokenError):
            scheduler.decide(1.0)
    assert scheduler.to_bytes() == before
    scheduler.check()
    assert isinstance(scheduler.decide(1.0)[0], Preempt)


@pytest.mark.parametrize("parts", ["claims", "cells and devices"])
def test_jobs_move_with_their_claims(parts):
    scheduler = Scheduler(claims=cluster(), **COMPOSED[parts]())
    decided(scheduler, *(job(f"j{i}", 1, role={"gpus": 1}) for i in range(3)))
    plan = scheduler.plan_moves(FreeNodes(["n0"]))
    scheduler.move(plan.moves, 1.0)
    scheduler.check()
    for name in scheduler:
        (pod,) = scheduler.status(name).pods
        assert [pool for pool, _ in devices_of(pod)] == [pod.node] == ["n1"]


def test_jobs_that_share_gpus_share_claims_and_pass_them_on():
    parts = {"topology": network(gpu=2), "sharing": Sharing(resources=2)}
    scheduler = Scheduler(claims=cluster(), **parts)
    stages = [(1.0, 3.0), (3.0, 1.0), (1.0, 3.0), (3.0, 1.0)]
    jobs = [job(f"j{i}", 1, role={"gpus": 2}, stages=of) for i, of in enumerate(stages)]
    started = {start.job: start for start in decided(scheduler, *jobs)}
    assert started["j3"].shares_with == ("j0",)
    assert started["j3"].pods[0].claims == started["j0"].pods[0].claims
    scheduler.finish("j0", 1.0)
    scheduler.check()
    assert scheduler.claims.claims == ("/j1/w/0/gpu", "/j2/w/0/gpu", "/j3/w/0/gpu")


# --- random histories beside the twin


class Caller:
    """What a caller knows from the actions, and what the twin says about it."""

    def __init__(self, slices, may_evict, most_pods=100):
        self.world = World(*slices, features=KubernetesFeatures.of("1.36"), evaluator=matches)
        self.jobs, self.running, self.may_evict = {}, {}, may_evict
        self.most_pods = most_pods  # on a node
        self.answers = {}

    def claims(self, name):
        (role,) = self.jobs[name].roles
        return [[plain_record(role)["claims"][0]] for _ in range(role.pods)]

    def owners(self, name):
        return [f"{name}/{i}" for i in range(len(self.running[name]))]

    def start(self, action):
        by_node = {}
        for pod in action.pods:
            by_node.setdefault(pod.node, []).append(pod)
        for node, pods in by_node.items():
            requested = [claim for pod in pods for claim in self.claims(action.job)[pod.index]]
            wanted = self.world.allocate(*requested, node=node)
            given = [allocation for pod in pods for _, allocation in pod.claims]
            if not self.may_evict:  # otherwise a job may have started and left again
                assert [named(allocation) for allocation in given] == [
                    named(allocation) for allocation in wanted.allocations
                ]
            for pod, allocation in zip(pods, given, strict=True):
                self.world.commit(f"{action.job}/{pod.index}", allocation)
        self.running[action.job] = action.pods

    def stop(self, name):
        for owner in self.owners(name):
            self.world.book.remove(owner)
        return self.running.pop(name)

    def fits(self, name):
        """Whether all pods of a job can start now, on any nodes."""
        requested = self.claims(name)
        for nodes in product(NODES, repeat=len(requested)):
            on = {node: [] for node in nodes}
            for node, own in zip(nodes, requested, strict=True):
                on[node] += own
            counts = Counter(
                [pod.node for pods in self.running.values() for pod in pods] + [*nodes]
            )
            if max(counts.values()) <= self.most_pods and all(
                self.fits_on(node, own) for node, own in on.items()
            ):
                return True
        return False

    def fits_on(self, node, claims):
        """Whether a node has devices for claims beside those that its pods hold.

        The twin, and a kernel beside it, answer a question once: the devices are of one node each.
        """
        held = sorted(
            json.dumps([name, pod.index, named(allocation)])
            for name, pods in self.running.items()
            for pod in pods
            if pod.node == node
            for _, allocation in pod.claims
        )
        question = json.dumps([node, claims, held])
        if question not in self.answers:
            answer = self.world.allocate(*claims, node=node)
            self.answers[question] = answer.outcome == "allocated"
        return self.answers[question]

    def fits_without(self, name, others):
        pods = {other: self.stop(other) for other in others}
        try:
            return self.fits(name)
        finally:
            for other, of in pods.items():
                for pod in of:
                    for _, allocation in pod.claims:
                        self.world.commit(f"{other}/{pod.index}", allocation)
                self.running[other] = of

    def obey(self, actions):
        stopped = [action.job for action in actions if isinstance(action, Preempt)]
        for action in actions:
            if isinstance(action, Preempt):
                self.stop(action.job)
            elif isinstance(action, Start):
                self.start(action)
            elif isinstance(action, Reject):
                everything = list(self.running)
                assert not self.fits_without(action.job, everything)
                del self.jobs[action.job]
        return stopped

    def check(self):
        """Check that no waiting job could start."""
        for name, waiting in self.jobs.items():
            if name in self.running:
                continue
            weak = [
                other
                for other in self.running
                if self.may_evict and waiting.guaranteed and not self.jobs[other].guaranteed
            ]
            assert not self.fits_without(name, weak), (name, weak)


def named(allocation):
    return [
        (result["request"], result["pool"], result["device"], result.get("consumedCapacity"))
        for result in allocation["devices"]["results"]
    ]


def some_claim(rng, kind):
    model = "device.attributes['gpu.x'].model == "
    if kind == "plain":
        where = rng.choice(["", "", IS_A, model + "'b'"])
        return gpus(rng.choice([1, 1, 2, 3]), where=where)
    if kind == "parts":
        return gpus(1, where=model + rng.choice(["'whol'", "'half'", "'small'"]))
    amount = rng.choice(["1", "3", "5", "8"])
    return claim(request("r", 1, capacity={"memory": amount}), name="gpu")


BY_SIDE = {
    "alone": dict,
    "network": lambda: {"topology": network(gpu=4)},
    "cells": lambda: {"cells": cells(4)},
    "devices": lambda: {"devices": machines(gpus=4)},
    "network and devices": lambda: {"topology": network(gpu=4), "devices": machines(gpus=4)},
}


@pytest.mark.parametrize("parts", BY_SIDE)
@pytest.mark.parametrize("may_evict", [False, True], ids=["waits", "evicts"])
@pytest.mark.parametrize("kind", ["plain", "parts", "shares"])
@pytest.mark.parametrize("seed", seeds(1))
def test_in_any_history_no_job_waits_that_could_start(seed, kind, may_evict, parts):
    rng = random.Random(f"{seed}{kind}")
    policy = {"value": "8", "requestPolicy": {"default": "1", "validRange": {"min": "1"}}}
    slices = {
        "plain": plain_slices(),
        "parts": [device for node in NODES for device in partitions(node)],
        "shares": [
            slice_of(node, [shared(f"d{i}", {"memory": policy}) for i in range(1 + (node == "n1"))])
            for node in NODES
        ],
    }[kind]
    others, gpus = BY_SIDE[parts](), {} if parts == "alone" else {"gpus": 2}
    scheduler = Scheduler(claims=cluster(*slices), preemption=may_evict, immediate=True, **others)
    caller = Caller(slices, may_evict, 2 if others else 100)
    held = scheduler.claims.to_bytes()
    for step in range(40):
        now, name = float(step), f"j{step}"
        running = sorted(caller.running)
        if running and rng.random() < 0.4:
            name = rng.choice(running)
            scheduler.finish(name, now)
            caller.stop(name)
            del caller.jobs[name]
        else:
            role = Role("w", rng.choice([1, 1, 2]), claims=[some_claim(rng, kind)], **gpus)
            # Cells wait for opportunistic jobs to leave guaranteed cells.
            is_guaranteed = rng.random() < 0.6 or (parts == "cells" and not may_evict)
            caller.jobs[name] = Job(name, "t", [role], guaranteed=is_guaranteed)
            scheduler.submit(caller.jobs[name], now)
        with scheduler.what_if() as branch:
            expected = branch.decide(now)
        actions = scheduler.decide(now)
        assert actions == expected
        caller.obey(actions)
        caller.check()
        scheduler.check()
        if step % 10 == 5:
            again = Scheduler.from_bytes(scheduler.to_bytes())
            assert again.to_bytes() == scheduler.to_bytes()
            assert [again.status(name).pods for name in again] == [
                scheduler.status(name).pods for name in scheduler
            ]
    for name in list(scheduler):
        scheduler.cancel(name, 100.0) if scheduler.state(name) == "pending" else None
    for name in list(scheduler):
        scheduler.finish(name, 101.0)
    assert scheduler.claims.to_bytes() == held
    scheduler.close()


COMPOSED = {
    "claims": dict,
    **BESIDE,
    "all": lambda: {
        "quotas": QuotaTree(
            [
                Quota("all", max={"gpu": 24, OF_CLASS: 12}),
                Quota("a", max={"gpu": 24, OF_CLASS: 12}, min={OF_CLASS: 6}, parent="all"),
                Quota("t", max={"gpu": 24, OF_CLASS: 12}, min={OF_CLASS: 6}, parent="all"),
            ],
            total={"gpu": 24, OF_CLASS: 12},
        ),
        "topology": network(),
        "devices": machines(),
    },
    "sharing": lambda: {"topology": network(), "sharing": Sharing(resources=2)},
    "lending": lambda: {"cells": cells(4, 2), "lending": True},
}


def happen(scheduler, rng, step, tenants, now):
    """Cause one event."""
    by_state = {"pending": [], "running": [], "reserved": [], "leaving": [], "lent": []}
    for name in scheduler:
        status = scheduler.status(name)
        leaves = status.for_job and not status.has_stopped
        by_state["leaving" if leaves else status.state].append(name)
    what = rng.choice(["submit"] * 4 + ["finish", "finish", "stopped", "stopped", "cancel", "node"])
    state = {
        "finish": rng.choice(["running", "running", "lent"]),
        "stopped": "leaving",
        "cancel": "reserved",
    }.get(what)
    if what == "node":
        scheduler.set_node(rng.choice(NODES), rng.random() < 0.7, now)
    elif state and by_state[state]:
        getattr(scheduler, what)(rng.choice(by_state[state]), now)
    else:
        sizes = rng.choice([1, 1, 2, 3]), rng.choice([0, 1, 2, 4])
        role = {"gpus": sizes[1], "min_pods": 1} if sizes[1] else {"gpus": 0}
        weak, stages = rng.random() < 0.4, rng.choice([(), (1.0, 3.0), (3.0, 1.0)])
        pods, tenant = rng.choice([1, 1, 2]), rng.choice(tenants)
        scheduler.submit(
            job(f"j{step}", sizes[0], pods, tenant, role, guaranteed=not weak, stages=stages), now
        )


def charged(scheduler):
    """What quotas must charge for the devices of running and of reserved jobs."""
    expected = Counter()
    for owner, held in scheduler.claims.facts().held.items():
        name, _, rest = owner[1:].partition("/")
        if "//" not in rest:
            expected[scheduler.job(name).quota] += sum(SIZES[id.device] for id, _, _ in held)
    for name in scheduler:
        status = scheduler.status(name)
        for pod in status.pods if status.state == "reserved" else ():
            expected[scheduler.job(name).quota] += sum(SIZES[id] for _, id in devices_of(pod))
    return {quota: expected[quota] for quota in "at"}


@pytest.mark.parametrize(
    ("seed", "parts"),
    # In the last two, a job is evicted to which another one has passed its devices, and the quota
    # refuses the devices of a job that is on idle cells.
    [*product(seeds(2), COMPOSED), (30007, "sharing"), (90008, "lending")],
)
def test_any_history_of_a_composition_is_sound_saved_and_replayed(seed, parts, tmp_path):
    rng = random.Random(f"{seed}{parts}")
    composition = COMPOSED[parts]()
    has_capacities = "quotas" not in composition and rng.random() < 0.7
    if has_capacities:
        composition["quotas"] = capacity_tree(limit=rng.choice(["max", "runtime"]))
    tenants = ["t"] if "cells" in composition or "quotas" not in composition else ["a", "t"]
    path, slices = tmp_path / "log", sized()
    scheduler = Scheduler(
        claims=cluster(*slices), immediate=rng.random() < 0.4, log=path, **composition
    )
    for step in range(50):
        now = float(step)
        happen(scheduler, rng, step, tenants, now)
        scheduler.check()
        before = scheduler.copy()
        actions = scheduler.decide(now)
        scheduler.check()
        started = {action.job for action in actions if isinstance(action, Start | Promote)}
        verify_actions(actions, {name: scheduler.job(name) for name in started}, before)
        if has_capacities:
            assert {quota: used(scheduler, quota) for quota in "at"} == charged(scheduler)
        for name in scheduler:
            for pod in scheduler.status(name).pods:
                assert {pool for pool, _ in devices_of(pod)} in (set(), {pod.node})
        if step % 10 == 5:
            once = Scheduler.from_bytes(scheduler.to_bytes())
            assert Scheduler.from_bytes(once.to_bytes()).to_bytes() == once.to_bytes()
            assert once.claims.to_bytes() == scheduler.claims.to_bytes()
    scheduler.close()
    again = replay(path)
    again.check()
    assert [again.status(name) for name in again] == [scheduler.status(name) for name in scheduler]
    assert again.claims.to_bytes() == scheduler.claims.to_bytes()
    if "quotas" in composition:
        assert again.quotas.to_bytes() == scheduler.quotas.to_bytes()
    for _ in range(3):
        for name in list(scheduler):
            if name not in scheduler:
                continue
            if scheduler.status(name).for_job and not scheduler.status(name).has_stopped:
                scheduler.stopped(name, 100.0)
            elif scheduler.state(name) in ("running", "lent"):
                scheduler.finish(name, 100.0)
            else:
                scheduler.cancel(name, 100.0)
    assert list(scheduler) == []
    assert scheduler.claims.claims == ()


def test_a_node_with_claims_that_devices_do_not_know_is_not_used():
    machines = dict.fromkeys(NODES[:2], NodeDevices.uniform(gpus=1))
    scheduler = Scheduler(devices=DeviceCluster(machines), claims=cluster())
    jobs = [Job(f"j{i}", "a", [Role("w", gpus=1, claims=[gpus(1)])]) for i in range(3)]
    actions = decided(scheduler, *jobs)
    assert [action.pods[0].node for action in actions[:2]] == ["n0", "n1"]
    assert isinstance(actions[2], Wait)
    scheduler.remove_node("n0", 1.0)
    scheduler.decide(1.0)
    assert scheduler.status("j0").state == "pending"
    scheduler.check()


def test_an_explanation_that_tries_healthy_nodes_lets_no_job_start_on_a_bad_one():
    scheduler = Scheduler(claims=cluster())
    scheduler.set_node("n0", False, 0.0)
    for i in range(3):
        scheduler.submit(Job(f"j{i}", "a", [Role("w", gpus=0, claims=[gpus(4)])]), 0.0)
    scheduler.decide(0.0)
    assert [change.nodes for change in scheduler.explain("j2").changes][:1] == [("n0",)]
    scheduler.submit(Job("late", "a", [Role("w", gpus=0, claims=[gpus(1)])]), 0.0)
    assert [type(action) for action in scheduler.decide(0.0)] == [Wait]
