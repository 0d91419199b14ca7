"""The rules of requests, constraints, counters, shares and results, one by one."""

import pytest
from dra.worlds import (
    World,
    allocation,
    claim,
    cluster_of,
    counter_slice,
    device,
    device_class,
    either,
    gpus,
    published_slice,
    request,
    shared,
    terms,
)

from hivecore.dra import KubernetesFeatures

NONE = "unsatisfiable"
ROOT = "gpu.x/root"


def rooted(*roots, share=False):
    """Devices d0, d1, ... with these values of the attribute ``root``; ``None``: without it."""
    make = shared if share else device
    given = [{} if root is None else {"root": root} for root in roots]
    return published_slice(
        "s", [make(f"d{i}", attributes=of, capacity={}) for i, of in enumerate(given)]
    )


# --- requests


def test_an_alternative_that_leaves_less_than_later_requests_want_is_passed_over():
    two = [either(name, many=terms(32), few=terms(16)) for name in "rq"]
    assert World(gpus(64)).given(claim(*two)).count("/few") == 32


@pytest.mark.parametrize("count", [33, 2**31, 2**63 - 1])
def test_an_alternative_of_any_number_of_devices_is_skipped(count):
    every = either("r", many=terms(count), few=terms(1))
    assert World(gpus(2)).given(claim(every)) == "r/few:d0"
    assert World(gpus(0, allNodes=True)).given(claim(every)) == "unsatisfiable"


def test_a_claim_has_32_devices_at_most():
    world = World(gpus(64))
    assert world.given(claim(request("r", 32))).count(":") == 32
    assert world.given(claim(request("r", 33))) == "too_many_devices"
    assert world.given(claim(request("r", 20), request("q", 13))) == "too_many_devices"
    assert world.given(claim(request("r", "All"))) == "too_many_devices"
    two = [either(name, many=terms(20), few=terms(12)) for name in "rq"]
    assert world.given(claim(*two)).count("q/few") == 12
    claims = [claim(request("r", 32), name=name) for name in "ce"]
    assert world.given(*claims).count(":") == 64


@pytest.mark.parametrize("version", ["1.34", "1.35"])
def test_devices_come_in_the_order_of_pools_slices_and_positions(version):
    world = World(gpus(2), gpus(1, driver="a.x", name="t"), features=KubernetesFeatures.of(version))
    result = world.results(claim(request("r", 2)))
    assert [(entry["driver"], entry["device"]) for entry in result] == [
        ("a.x", "d0"),
        ("gpu.x", "d0"),
    ]


# --- constraints


@pytest.mark.parametrize(
    ("roots", "match", "distinct"),
    [
        (("a", "a"), True, False),
        (("a", "b"), False, True),
        ((1, "1"), False, True),
        ((1, True), False, True),
        ((None, "a"), False, False),
        (({"version": "1.0.0"}, {"version": "1.0.0+b"}), False, True),
        (({"version": "1.0.0"}, "1.0.0"), False, True),
        ((["a", "b"], "b"), True, False),
        ((["a"], ["b", "c"]), False, True),
        (([1], ["1"]), False, True),
        ((["r", "s"], ["s", "t"], ["t", "r"]), False, False),
        ((["r", "s"], ["s", "t"], ["s"]), True, False),
        (("a", "b", "a"), False, False),
    ],
)
def test_a_constraint_is_kept_by_all_devices_together(roots, match, distinct):
    world, wanted = World(rooted(*roots)), request("r", len(roots))
    assert (world.given(claim(wanted, match=ROOT)) != NONE) == match
    assert (world.given(claim(wanted, distinct=ROOT)) != NONE) == distinct


def test_an_attribute_is_found_by_its_full_name_then_by_the_short_name_of_the_driver():
    both = device("d0", {"root": "short", "gpu.x/root": "full"})
    of_others = device("d1", {"y.z/root": "full", "root": "full"})
    world = World(published_slice("s", [both, of_others]))
    assert world.given(claim(request("r", 2), match=ROOT)) == "r:d0 r:d1"
    assert world.given(claim(request("r", 1), match="y.z/root")) == "r:d1"


@pytest.mark.parametrize(("version", "answer"), [("1.36", "cel_runtime"), ("1.37", NONE)])
def test_lists_are_of_an_unknown_type_where_the_gate_is_off(version, answer):
    slices = published_slice("s", [device("d0", {"model": "a", "root": ["a"]})])
    world = World(slices, features=KubernetesFeatures.of(version))
    assert world.given(claim(request("r"), match=ROOT)) == NONE
    assert world.given(claim(request("r", where="model=a"), match=ROOT)) == answer


@pytest.mark.parametrize("lists_first", [True, False])
def test_a_list_counts_on_its_own_device_where_the_gate_is_off(lists_first):
    devices = [device("d0", {"model": "a"}), device("d1", {"model": "a", "root": ["a"]})]
    slices = published_slice("s", devices[::-1] if lists_first else devices)
    world = World(slices, features=KubernetesFeatures.of("1.36"))
    assert world.given(claim(request("r", 2, where="model=a"))) == "cel_runtime"


# --- counters


def partitions(*taken, sets=None, **fields):
    devices = [device(f"d{i}", counters=counters, **fields) for i, counters in enumerate(taken)]
    sets = sets or {"set": {"x": 4, "y": 4}}
    return [published_slice("s", devices, count=2), counter_slice("t", sets, count=2)]


def test_each_counter_of_each_set_must_suffice():
    sets = {"a": {"x": 4, "y": 1}, "b": {"x": 1}}
    first, second = {"a": {"x": 1, "y": 1}}, {"a": {"x": 1}, "b": {"x": 1}}
    assert World(*partitions(first, second, sets=sets)).given(claim(request("r", 2))) == "r:d0 r:d1"
    assert World(*partitions(first, first, sets=sets)).given(claim(request("r", 2))) == NONE
    assert World(*partitions(second, second, sets=sets)).given(claim(request("r", 2))) == NONE


def test_groups_on_a_counter_set_do_not_matter_where_their_gate_is_off():
    slices = partitions(*[{"set": {"x": 1, "groups": of}} for of in (["a"], ["b"])])
    assert World(*slices).given(claim(request("r", 2))) == NONE
    off = KubernetesFeatures.of("1.37")
    assert World(*slices, features=off).given(claim(request("r", 2))) == "r:d0 r:d1"


# --- shares

STEPS = {"default": "2", "validRange": {"min": "2", "max": "8", "step": "2"}}
VALUES = {"default": "1", "validValues": ["1", "4", "8"]}


@pytest.mark.parametrize(
    ("policy", "wish", "consumed"),
    [
        (None, None, "10"),
        (None, "3", "3"),
        (None, "11", None),
        ({"default": "3"}, None, "3"),
        ({"default": "3"}, "4", "4"),
        ({"default": "0"}, None, "0"),
        (STEPS, None, "2"),
        (STEPS, "0", "2"),
        (STEPS, "3", "4"),
        (STEPS, "8", "8"),
        (STEPS, "9", None),
        ({"default": "2", "validRange": {"min": "2"}}, "2500m", "2500m"),
        (VALUES, None, "1"),
        (VALUES, "2", "4"),
        (VALUES, "9", None),
    ],
)
def test_a_request_consumes_what_the_policy_makes_of_it(policy, wish, consumed):
    capacity = {"value": "10"} | ({"requestPolicy": policy} if policy else {})
    world = World(published_slice("s", [shared("d0", {"m": capacity})]))
    wanted = claim(request("r", capacity={"m": wish} if wish else None))
    if consumed is None:
        assert world.given(wanted) == NONE
    else:
        (result,) = world.results(wanted)
        assert (result["consumedCapacity"], result["shareID"]) == ({"m": consumed}, "share-0")


def test_fractions_and_amounts_beyond_64_bits_are_exact():
    size = 2**63 * 3
    policy = {"default": "0", "validRange": {"min": "0", "step": "100m"}}
    capacity = {"m": {"value": str(size), "requestPolicy": policy}}
    world = World(published_slice("s", [shared("d0", capacity)]))
    most, rest = request("r", capacity={"m": str(size - 1)}), request("q", capacity={"m": "901m"})
    (_, second) = world.results(claim(most, rest), is_checked=False)  # the kernel has 62 bits
    assert second["consumedCapacity"] == {"m": "1"}
    more = claim(most, rest, request("z", capacity={"m": "1n"}))
    assert world.given(more, is_checked=False) == NONE


def test_a_shareable_device_is_given_as_a_whole_where_shares_are_off():
    world = World(
        published_slice("s", [shared("d0", {"m": "4"})]), features=KubernetesFeatures.of("1.35")
    )
    assert world.given(claim(request("r"), request("q"))) == NONE
    assert "shareID" not in world.results(claim(request("r")))[0]


# --- taints and admin access


@pytest.mark.parametrize(
    ("taint", "toleration", "usable"),
    [
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, None, False),
        ({"key": "k", "value": "v", "effect": "NoExecute"}, None, False),
        ({"key": "k", "effect": "None"}, None, True),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "k", "value": "w"}, False),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "k"}, False),
        ({"key": "k", "effect": "NoSchedule"}, {"key": "k", "operator": ""}, True),
        (
            {"key": "k", "value": "v", "effect": "NoExecute"},
            {"key": "k", "operator": "Exists"},
            True,
        ),
        ({"key": "k", "effect": "NoExecute"}, {"operator": "Exists"}, True),
        (
            {"key": "k", "effect": "NoExecute"},
            {"operator": "Exists", "effect": "NoSchedule"},
            False,
        ),
        ({"key": "k", "effect": "NoExecute"}, {"operator": "Exists", "effect": "NoExecute"}, True),
    ],
)
def test_a_taint_keeps_off_what_does_not_tolerate_it(taint, toleration, usable):
    tolerations = [toleration] if toleration else []
    slices = [published_slice("s", [device("d0", taints=[taint])])]
    for count in (1, "All"):
        wanted = claim(request("r", count, tolerations=tolerations))
        assert World(*slices).given(wanted) == ("r:d0" if usable else NONE)
        assert World(*slices, features=KubernetesFeatures.of("1.35")).given(wanted) == "r:d0"


def test_rules_add_taints_to_the_devices_that_they_select():
    def rule(selector, name="t"):
        taint = {"key": "k", "effect": "NoSchedule"}
        spec = (
            {"taint": taint} if selector is None else {"taint": taint, "deviceSelector": selector}
        )
        return {"metadata": {"name": name}, "spec": spec}

    for selector, given in (
        ({"device": "d0"}, "r:d1"),
        ({"pool": "other"}, "r:d0"),
        ({}, NONE),
        (None, "r:d0"),
    ):
        assert World(gpus(2), rules=[rule(selector)]).given(claim(request("r"))) == given
    off = KubernetesFeatures.of("1.36")
    assert World(gpus(1), rules=[rule({})], features=off).given(claim(request("r"))) == "r:d0"


# --- errors


@pytest.mark.parametrize(
    ("version", "item", "code"),
    [
        ("1.36", request("r", deviceClassName="other"), "class_not_found"),
        ("1.36", request("r", deviceClassName=""), "missing_class"),
        ("1.36", request("r", selectors=[{"new": {}}]), "unsupported_selector"),
        ("1.36", request("r", allocationMode="Most"), "unsupported_mode"),
        ("1.35", request("r", capacity={"m": "1"}), "feature_disabled"),
        ("1.36", request("r", where="no CEL"), "cel_compile"),
        ("1.36", request("r", where="absent=1"), "cel_runtime"),
        ("1.36", request("r", "All", where="absent=1"), "cel_runtime"),
    ],
)
def test_an_error_has_its_class(version, item, code):
    world = World(gpus(1), features=KubernetesFeatures.of(version))
    assert world.given(claim(item)) == code
    assert world.given(claim(either("q", s=item["exactly"]))) == code


def test_gates_and_constraints_that_are_off_are_errors():
    admin, list_off = {"DRAAdminAccess": False}, {"DRAPrioritizedList": False}
    world = World(gpus(1), features=KubernetesFeatures.of("1.36", admin | list_off))
    assert world.given(claim(request("r", adminAccess=False))) == "feature_disabled"
    assert world.given(claim(either("r", s=terms()))) == "feature_disabled"
    assert world.given(claim(request("r"), constraints=[{}])) == "unsupported_constraint"
    world.features = KubernetesFeatures.of("1.35")
    assert world.given(claim(request("r"), distinct=ROOT)) == "unsupported_constraint"


def test_a_selector_that_fails_on_a_device_is_an_error_if_no_other_device_serves():
    world = World(published_slice("s", [device("d0"), device("d1", {"model": "a"})]))
    each = claim(request("r", where="model=a"))
    decision = world.allocate(each)
    assert decision.allocations[0]["devices"]["results"][0]["device"] == "d1"
    assert decision.problems[0].message == "request r, device gpu.x/p/d0: 'model'"
    world.commit("other", decision.allocations[0])
    assert world.given(each) == "cel_runtime"
    assert world.given(claim(request("r", "All", where="model=a"))) == "cel_runtime"
    world.commit("third", allocation("d0"))
    assert world.given(each) == NONE


def test_no_selector_can_be_evaluated_on_an_attribute_of_an_unknown_type():
    world = World(published_slice("s", [device("d0", {"model": {"float": 1.5}})]))
    assert world.given(claim(request("r", where="model=a"))) == "cel_runtime"
    assert world.given(claim(request("r"))) == "r:d0"


# --- results


def zones(**fields):
    rule = {"key": "zone", "operator": "In", "values": ["a"]}
    other = {"key": fields.pop("key"), "operator": "Exists"}
    return {"nodeSelectorTerms": [{"matchExpressions": [rule, other]}]}


def test_an_allocation_is_tied_to_the_node_if_a_device_is():
    labels = {"zone": "a", "x": "", "y": ""}
    slices = [
        published_slice(key, [device(key)], pool=key, nodeSelector=zones(key=key)) for key in "xy"
    ]
    slices.append(published_slice("z", [device("z")], pool="z", allNodes=True))
    (result,) = World(*slices).allocate(claim(request("r", 3)), labels=labels).allocations
    keys = [
        entry["key"] for entry in result["nodeSelector"]["nodeSelectorTerms"][0]["matchExpressions"]
    ]
    assert keys == ["zone", "x", "y"]
    (result,) = World(slices[2]).allocate(claim(request("r"))).allocations
    assert result.keys() == {"devices"}
    node = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    for tied in (gpus(1), published_slice("s", [device("d", bindsToNode=True)], allNodes=True)):
        (result,) = World(slices[2], tied).allocate(claim(request("r", 2))).allocations
        assert result["nodeSelector"] == {"nodeSelectorTerms": [{"matchFields": [node]}]}


def test_a_result_has_copies_of_tolerations_and_binding_conditions():
    conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    tolerations = [
        {"key": "k", "operator": "Exists", "tolerationSeconds": 0},
        {"key": "k", "operator": "Equal", "value": "v"},
    ]
    world = World(published_slice("s", [device("d0", **conditions)]))
    (result,) = world.results(claim(request("r", tolerations=tolerations)))
    own = {"request": "r", "driver": "gpu.x", "pool": "p", "device": "d0"}
    assert result == {**own, "tolerations": tolerations, **conditions}
    world.features = KubernetesFeatures.of("1.36", {"DRADeviceBindingConditions": False})
    assert world.given(claim(request("r"))) == NONE


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_configurations_are_those_of_the_classes_then_those_of_the_claim_that_are_in_use(version):
    def config(name, *names):
        opaque = {"opaque": {"driver": "gpu.x", "parameters": {"is": name, "x": None}}}
        return opaque | ({"requests": list(names)} if names else {})

    classes = [device_class("big", config=[config("big 1"), config("big 2")])]
    wanted = claim(
        either("r", s=terms(deviceClassName="big"), t=terms()),
        request("q"),
        request("z", deviceClassName="big"),
        config=[
            config("all"),
            config("no", "r/t"),
            config("some", "r/s"),
            config("own", "r", "q"),
            config("every", "r", "q", "z"),
        ],
    )
    world = World(gpus(3), classes=classes, features=KubernetesFeatures.of(version))
    (result,) = world.allocate(wanted).allocations
    given = [
        (entry["source"], entry["opaque"]["parameters"]["is"], entry.get("requests"))
        for entry in result["devices"]["config"]
    ]
    assert given == [
        ("FromClass", "big 1", ["r/s", "z"]),
        ("FromClass", "big 2", ["r/s", "z"]),
        ("FromClaim", "all", None),
        ("FromClaim", "some", ["r/s"]),
        ("FromClaim", "own", ["r", "q"]),
        ("FromClaim", "every", None if version == "1.37" else ["r", "q", "z"]),
    ]


# --- faults of upstream's allocators (section 14)


def test_distinct_counts_every_device_of_one_request():
    """14.1: red, blue, red."""
    assert World(rooted("red", "blue", "red")).given(claim(request("r", 3), distinct=ROOT)) == NONE


def test_a_candidate_that_is_refused_or_taken_back_leaves_its_counters():
    """14.2: d0 is tainted, d1 breaks the constraint; a share that was tried is taken back."""
    whole = {"set": {"x": 4}}
    slices = partitions(whole, whole, whole)
    devices = slices[0]["spec"]["devices"]
    devices[0]["taints"] = [{"key": "k", "effect": "NoExecute"}]
    devices[2]["attributes"] = {"root": {"int": 1}}
    assert World(*slices).given(claim(request("r"), match=ROOT)) == "r:d2"
    devices[1]["allowMultipleAllocations"] = True
    choice = either("r", share=terms(), last=terms(1, "root=1"))
    assert World(*slices).given(claim(choice, match=(ROOT, "r"))) == "r/share:d2"
    two = claim(request("r"), request("q", where="root=1"), match=(ROOT, "q"))
    assert World(*slices, gpus(1, pool="q", name="u")).given(two) == "r:d0 q:d2"


def test_values_in_common_are_restored_when_a_device_is_taken_back():
    """14.4: with d1 only "a" is left, which d2 does not have."""
    world = World(rooted(["a", "b"], ["a"], ["b"], ["b"]))
    assert world.given(claim(request("r", 3), match=ROOT)) == "r:d0 r:d2 r:d3"


def test_committed_shares_of_a_device_are_charged_to_its_counters_once():
    """14.5."""
    slices = partitions({"set": {"x": 2}}, {"set": {"x": 2}}, {"set": {"x": 1}})
    slices[0]["spec"]["devices"][0] |= {"allowMultipleAllocations": True}
    slices[0]["spec"]["devices"][0]["capacity"] = {"m": {"value": "4"}}
    share = {"request": "r", "device": "d0", "consumedCapacity": {"m": "1"}}
    held = [allocation({**share, "shareID": name}) for name in "ab"]
    world = World(*slices, held=held)
    for owner in ("held 0", "held 1"):
        assert world.given(claim(request("r", capacity={"m": "2"}), request("q"))) == "r:d0 q:d1"
        assert world.given(claim(request("r", 3))) == NONE
        world.book.remove(owner)
    assert world.book.charges == world.book.shares == {}


def test_admin_access_needs_no_counters_and_no_capacity_and_has_no_share():
    """14.6, 14.13."""
    slices = partitions({"set": {"x": 4}}, {"set": {"x": 4}})
    admin = claim(request("a", "All", adminAccess=True))
    assert World(*slices, held=[allocation("d0")]).given(admin) == "a:d0 a:d1"
    full = {"request": "r", "device": "d0", "shareID": "1", "consumedCapacity": {"m": "4"}}
    world = World(published_slice("s", [shared("d0", {"m": "4"})]), held=[allocation(full)])
    (result,) = world.results(admin)
    assert not result.keys() & {"shareID", "consumedCapacity"}
    assert World(published_slice("s", [shared("d0", {"m": "4"})])).given(
        admin, claim(request("r"), name="e")
    ) == "a:d0 r:d0"  # fmt: skip


def test_what_a_device_was_charged_stays_though_its_driver_publishes_something_else():
    """14.7."""
    world = World(*partitions({"set": {"x": 4}}), held=[allocation("d0")])
    changed = World(*partitions({"set": {"x": 1}}, {"set": {"x": 1}}))
    changed.book = world.book
    assert changed.given(claim(request("r"))) == NONE
    world.book.remove("held 0")
    assert changed.given(claim(request("r", 2))) == "r:d0 r:d1"


def test_all_takes_devices_with_counters_and_alternatives_of_it_are_taken_back():
    """14.8, 14.9."""
    slices = partitions({"set": {"x": 2}}, {"set": {"x": 2}})
    assert World(*slices).given(claim(request("r", "All"))) == "r:d0 r:d1"
    choice = either("r", every=terms("All"), one=terms(1))
    assert World(*slices).given(claim(choice, request("q"))) == "r/one:d0 q:d1"
    assert World(gpus(3), held=[allocation("d2")]).given(claim(choice)) == "r/one:d0"


def test_an_all_request_on_an_incomplete_pool_concerns_the_node_alone():
    """14.10."""
    cluster = cluster_of(gpus(1, count=2))
    for wanted, code, scope in (
        (request("r", "All"), "pool_incomplete", "node"),
        (request("r", 33), "too_many_devices", "claims"),
    ):
        (problem,) = cluster.allocate([claim(wanted)], "n1").problems
        assert (problem.code, problem.scope) == (code, scope)


def test_a_counter_that_is_charged_beyond_its_amount_blocks_those_alone_that_take_of_it():
    """14.12."""
    slices = partitions(
        {"set": {"x": 4}}, {"set": {"x": 4}}, {"set": {"y": 1, "x": 0}}, {"set": {"x": 1}}
    )
    world = World(*slices, held=[allocation("d0"), allocation("d1")])
    assert world.given(claim(request("r"))) == "r:d2"
    assert world.given(claim(request("r", 2))) == NONE
