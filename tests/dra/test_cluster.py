"""`DraCluster`: its answers are the twin's, and its state is what its objects and claims say."""

import copy
import pickle
from fractions import Fraction
from itertools import combinations, permutations

import pytest
from dra import worlds
from dra.worlds import (
    claim,
    cluster_of,
    device,
    either,
    gpus,
    published_slice,
    request,
)
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.dra import DraCluster, ResourceClaim, ResourceSlice
from hivecore.dra._claim_kind import ClaimKind
from hivecore.dra._node_class import Classes
from hivecore.errors import CorruptStateError, StaleDecisionError


def two_nodes():
    return [
        published_slice(f"s{n}", [device(f"d{i}", {"model": m}) for i, m in enumerate(models)],
                        nodeName=n, pool=n)
        for n, models in (("n1", "aab"), ("n2", "bb"))
    ]  # fmt: skip


def test_amounts_that_are_no_whole_numbers_are_exact():
    cluster = cluster_of(published_slice("s", [worlds.shared("d", {"cpu": "1"})]))
    for i in range(3):
        each = claim(request("r", capacity={"cpu": "333m"}), name=f"c{i}")
        cluster.commit(cluster.allocate([each], "n1"))
    cluster.check()
    each = claim(request("r", capacity={"cpu": "1m"}), name="last")
    cluster.commit(cluster.allocate([each], "n1"))
    assert cluster.allocate(
        [claim(request("r", capacity={"cpu": "1u"}), name="no")], "n1"
    ).outcome == ("unsatisfiable")
    cluster.check()


def test_a_decision_is_stale_once_its_node_has_changed():
    """Two that decide at once do not give one device (14.11)."""
    cluster = cluster_of(*two_nodes())
    early, late = (cluster.allocate([claim(request("r"), name=n)], "n1") for n in "ab")
    cluster.commit(early)
    with pytest.raises(StaleDecisionError, match="n1"):
        cluster.commit(late)
    with pytest.raises(StaleDecisionError, match="n1"):
        cluster.commit(copy.copy(late))
    with pytest.raises(ValueError, match="has devices"):
        cluster.commit(early)


def test_a_copied_decision_binds_where_it_still_holds():
    cluster = cluster_of(*two_nodes())
    decision = cluster.allocate([claim(request("r", 2), name="a")], "n1")
    for where in (cluster.copy(), cluster):
        where.commit(pickle.loads(pickle.dumps(decision)))
        where.check()
        assert where.claims == ("/a",)


def test_a_decision_of_a_copy_that_needs_finer_units_binds():
    cluster = cluster_of(published_slice("s", [worlds.shared("d", {"cpu": "4"})]))
    cluster.allocate([claim(request("r"))], "n1")
    decision = cluster.copy().allocate([claim(request("r", capacity={"cpu": "333m"}))], "n1")
    cluster.commit(decision)
    cluster.check()


def of_sizes(**sizes):
    """Slices of one node each, with a device that may be shared."""
    return [
        worlds.object_of(
            "ResourceSlice",
            published_slice(
                f"s-{node}", [worlds.shared("d", {"m": size})], pool=node, nodeName=node
            ),
        )
        for node, size in sizes.items()
    ]


def sized(size, name="c"):
    return claim(request("r", capacity={"m": size}), name=name)


def test_the_waste_of_a_whole_device_may_need_a_finer_unit_than_all_amounts():
    cluster = cluster_of(published_slice("s", [device("a", {}, {"m": "2"}), device("b")]))
    decision = cluster.allocate([sized("1500m")], "n1", "least waste of m")
    assert decision.fewest == (Fraction(1, 2), Fraction(1, 2))
    cluster.update(*of_sizes(n2=str(2**60)))
    assert cluster.fits([sized("1500m")], "least waste of m").nodes == ("n1", "n2")
    whole = published_slice("w", [device("d", {}, {"m": "80Gi"})], pool="n3", nodeName="n3")
    cluster.remove("ResourceSlice", "s-n2")
    cluster.update(worlds.object_of("ResourceSlice", whole))
    with pytest.raises(ValueError, match="m: what is wasted exceeds 62 bits in parts of 1/10000"):
        cluster.allocate([sized("1n")], "n3", "least waste of m")


def test_a_past_question_does_not_keep_a_large_amount_from_being_added():
    cluster = cluster_of()
    cluster.update(*of_sizes(n1="1"))
    assert cluster.fits([sized("1n")]).nodes == ("n1",)
    cluster.update(*of_sizes(n2="80Gi"))
    assert cluster.fits([sized("40Gi")]).nodes == ("n2",)
    cluster.check()


def test_a_past_question_does_not_keep_another_one_from_its_answer():
    cluster = cluster_of()
    cluster.update(*of_sizes(n1=str(2**58)))
    for size in ("125m", "200m", "125m"):  # 2**58 is few enough eighths, and fifths
        assert cluster.fits([sized(size)]).nodes == ("n1",)
        cluster.check()
    pods = [[sized("125m", "a")], [sized("200m", "b")]]
    with pytest.raises(ValueError, match=r"m: .* exceeds 62 bits in parts of 1/40"):
        cluster.schedule_gang(pods)
    assert cluster.schedule_gang(pods[:1]) is not None


def test_an_amount_that_has_gone_does_not_count():
    cluster = cluster_of()
    cluster.update(*of_sizes(n1="1", n2="1n"))
    cluster.commit(cluster.allocate([sized("1n", "a")], "n2"))
    for change in (lambda: cluster.remove("ResourceSlice", "s-n2"), lambda: cluster.release("/a")):
        before = cluster.to_bytes()
        with pytest.raises(ValueError, match=r"s-n3.*m: 85899345920 exceeds"):
            cluster.update(*of_sizes(n3="80Gi"))
        assert cluster.to_bytes() == before
        cluster.check()
        change()
    cluster.update(*of_sizes(n3="80Gi"))
    cluster.check()


def test_an_amount_that_is_replaced_does_not_count_and_comes_back_after_a_trial():
    cluster = cluster_of()
    cluster.update(*of_sizes(n1="1n"))
    with cluster.trial():
        cluster.update(*of_sizes(n1="80Gi"))
        assert cluster.fits([sized("40Gi")]).nodes == ("n1",)
        with cluster.trial():
            cluster.remove("ResourceSlice", "s-n1")
            cluster.update(*of_sizes(n2="80Ti"))
    assert cluster.fits([sized("1n")]).nodes == ("n1",)
    cluster.check()
    with pytest.raises(ValueError, match="m: 85899345920 exceeds 62 bits"):
        cluster.update(*of_sizes(n1="1n", n2="80Gi"))
    cluster.check()


def test_the_fullest_or_emptiest_node_is_chosen():
    cluster = cluster_of(*two_nodes())
    single = [claim(request("r"))]
    assert cluster.schedule(single).node == "n2"
    assert cluster.schedule(single, prefer="spread").node == "n1"
    assert cluster.schedule(single, prefer="name").node == "n1"
    assert cluster.schedule(single, nodes=["n1"]).node == "n1"
    assert cluster.schedule([claim(request("r", 4))]) is None


def test_a_better_alternative_comes_before_a_fuller_node():
    choice = either("r", first=worlds.terms(where="model=a"), second=worlds.terms())
    assert cluster_of(*two_nodes()).schedule([claim(choice)]).node == "n1"
    choice = either("r", first=worlds.terms(2, where="model=b"), second=worlds.terms())
    for nodes in (None, ["n1", "n2"]):
        decision = cluster_of(*two_nodes()).schedule([claim(choice)], nodes, prefer="name")
        assert decision.node == "n2"


def test_fits_names_nodes_and_reasons():
    fits = cluster_of(*two_nodes()).fits([claim(request("r", 3))])
    assert fits.nodes == ("n1",)
    assert dict(fits) == {"n1": "allocated", "n2": "unsatisfiable"}
    assert fits.reason("n2") == "request r wants 3; devices that suit it and are free: 2"
    assert fits.reason("n1") == ""
    with pytest.raises(KeyError):
        fits.reason("n3")


def test_fits_stay_as_they_were():
    cluster = cluster_of(*two_nodes())
    single = [claim(request("r", 3), name="a")]
    fits = cluster.fits(single)
    cluster.commit(cluster.schedule(single))
    assert fits.nodes == ("n1",)
    assert cluster.fits([claim(request("r", 3), name="b")]).nodes == ()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            claim(request("r", 2), request("q", 2)),
            "requests r, q together want 4; ",
        ),
        (
            claim(request("r", 3), match="gpu.x/model"),
            "no value of gpu.x/model has enough devices for request r",
        ),
        (claim(request("r", 4)), "request r wants 4; devices that suit it and are free: 3"),
        (
            claim(request("r", 3), distinct="gpu.x/model"),
            "enough devices suit request r, but they cannot",
        ),
    ],
)
def test_a_no_has_a_reason(given, reason):
    decision = cluster_of(*two_nodes()).allocate([given], "n1")
    assert decision.outcome == "unsatisfiable"
    assert decision.reason.startswith(reason)


@pytest.mark.parametrize(
    "of",
    [
        request("r", where="numa=1"),
        request("r", "All", where="no CEL"),
        request("r", 33),
        request("r", deviceClassName="other"),
        worlds.either("r", s=worlds.terms(33)),
    ],
)
def test_a_problem_names_the_claim_that_has_it_among_claims_that_are_alike(of):
    cluster = cluster_of(*two_nodes())
    for name in "ab":
        decision = cluster.allocate([claim(of, name=name)], "n1")
        assert [problem.claim for problem in decision.problems[:1]] == [name]


def test_a_limit_of_work_is_no_proof():
    sizes = [52, 53, 54, 55, 56, 57, 58, 59, 41, 41, 42, 43, 44, 45, 46, 47]
    slices = published_slice("s", [worlds.shared(f"d{i}", {"m": "100"}) for i in range(8)])
    each = claim(*(request(f"r{i}", capacity={"m": str(n)}) for i, n in enumerate(sizes)))
    cluster = cluster_of(slices, limit=600)
    decision = cluster.allocate([each], "n1")
    assert decision.outcome == "unknown"
    assert cluster.fits([each]).reason("n1").startswith("not known after")


# --- gangs


def test_a_gang_gets_the_joint_answer_that_pod_after_pod_misses():
    devices = [device("any"), device("b", {"model": "b"})]
    choice = either("r", half=worlds.terms(), whole=worlds.terms(where="model=b"))
    cluster = cluster_of(published_slice("s", devices))
    pods = [[claim(choice, name="p0")], [claim(request("q", where="model=b"), name="p1")]]
    decision = cluster.schedule_gang(pods)
    assert decision.nodes == ("n1", "n1")
    for each in decision.decisions:
        cluster.commit(each)
    cluster.check()
    assert cluster.claims == ("/p0", "/p1")


def test_a_gang_may_have_a_pod_on_each_of_many_nodes():
    nodes = [f"n{i}" for i in range(1200)]
    slices = [
        published_slice(f"s-{node}", [device("d")], pool=node, nodeName=node) for node in nodes
    ]
    gang = cluster_of(*slices).schedule_gang([[claim(request("r"), name=node)] for node in nodes])
    assert sorted(gang.nodes) == sorted(nodes)


MEMORY = "any", "capacity", "memory"
SIZED = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=3)


@given(st.lists(SIZED, min_size=1, max_size=3), st.lists(st.integers(1, 3), min_size=1, max_size=4),
       st.integers(0, 12), st.integers(0, 9), st.booleans(),
       st.sampled_from([None, 0, 1]))  # fmt: skip
@examples(400)
def test_a_gang_is_served_exactly_if_an_assignment_exists(
    nodes, sizes, memory, most_x, is_limited, where
):
    slices = []
    for i, of in enumerate(nodes):
        devices = [
            device(f"d{j}", {}, {"memory": str(size)}, counters={"s": {"x": str(x)}})
            for j, (size, x) in enumerate(of)
        ]
        fields = {"pool": f"n{i}", "nodeName": f"n{i}", "count": 2}
        counters = worlds.counter_slice(f"c{i}", {"s": {"x": "99"}}, **fields)
        slices += [published_slice(f"s{i}", devices, **fields), counters]
    cluster = cluster_of(*slices)
    within = {MEMORY: memory, ("any", "counters", "x"): most_x} if is_limited else {}
    memory, most_x = (memory, most_x) if is_limited else (99, 99)
    pods = [[claim(request("r", n), name=f"p{i}")] for i, n in enumerate(sizes)]
    fixed = {} if where is None else {0: f"n{min(where, len(nodes) - 1)}"}
    gang = cluster.schedule_gang(pods, within=within, where=fixed)

    def exists(pod, free, memory, most_x):
        if memory < 0 or most_x < 0 or pod == len(sizes):
            return min(memory, most_x) >= 0
        return any(
            exists(pod + 1, free - set(chosen), memory - sum(nodes[i][j][0] for i, j in chosen),
                   most_x - sum(nodes[i][j][1] for i, j in chosen))
            for i in range(len(nodes))
            if fixed.get(pod, f"n{i}") == f"n{i}"
            for chosen in combinations(sorted(entry for entry in free if entry[0] == i), sizes[pod])
        )  # fmt: skip

    every = {(i, j) for i, of in enumerate(nodes) for j in range(len(of))}
    assert (gang is not None) == exists(0, every, memory, most_x)
    if gang is not None:
        assert all(gang.nodes[pod] == node for pod, node in fixed.items())
        cluster.verify(gang)
        for decision in gang.decisions:
            cluster.commit(decision)
        taken = [
            decision.taken_of(i) for decision in gang.decisions for i in range(len(decision.claims))
        ]
        for key, most in within.items():
            assert sum(of.get(key, 0) for of in taken) <= most


def test_other_pods_do_not_join_a_pod_on_its_node_outside_of_the_nodes():
    nodes = [f"n{i}" for i in range(3)]
    slices = [
        published_slice(f"s{node}", [device(f"d{i}") for i in range(2)], pool=node, nodeName=node)
        for node in nodes
    ]
    pods = [[claim(request("r"), name=name)] for name in "abc"]
    gang = cluster_of(*slices).schedule_gang(pods, nodes=["n1"], where={0: "n2"})
    assert gang.nodes == ("n2", "n1", "n1")
    more = [*pods, [claim(request("r"), name="d")]]
    assert cluster_of(*slices).schedule_gang(more, nodes=["n1"], where={0: "n2"}) is None


@pytest.mark.parametrize(
    "given",
    [{"within": {key: 1}} for key in ("memory", ("any", "memory"), ("any", "size", "memory"))]
    + [{"within": {MEMORY: of}} for of in ("1Gi", -1, 0.5)]
    + [{"within": 3}, {"where": {1: "n1"}}, {"where": {0: "n9"}}, {"where": ["n1"]}]
    + [{"prefer": "near"}],
)
def test_limits_and_nodes_that_mean_nothing_are_refused(given):
    cluster = cluster_of(*two_nodes())
    before = cluster.to_bytes()
    with pytest.raises((KeyError, TypeError, ValueError), match=r"within|where|n9|prefer"):
        cluster.schedule_gang([[claim(request("r"))]], **given)
    assert cluster.to_bytes() == before


def with_a_common_device(count):
    """Two nodes with a device each, and some that both can use."""
    own = [
        published_slice(f"s-{node}", [device("d", {"model": "a"})], pool=node, nodeName=node)
        for node in ("n1", "n2")
    ]
    common = [device(f"c{i}", {"model": "b"}) for i in range(count)]
    return cluster_of(*own, published_slice("common", common, pool="common", allNodes=True))


@pytest.mark.parametrize("count", [1, 2])
def test_pods_of_a_gang_on_two_nodes_do_not_get_the_same_common_device(count):
    cluster = with_a_common_device(count)
    both = [request("r", where="model=a"), request("q", where="model=b")]
    gang = cluster.schedule_gang([[claim(*both, name=f"p{i}")] for i in range(2)])
    assert (gang is None) == (count == 1)
    if gang is not None:
        cluster.verify(gang)
        for decision in gang.decisions:
            cluster.commit(decision)
        cluster.check()


def test_pods_of_a_gang_go_elsewhere_where_a_common_device_is_taken():
    cluster = with_a_common_device(1)
    cluster.update(
        worlds.object_of("ResourceSlice", gpus(3, pool="n3", nodeName="n3", name="s-n3"))
    )
    roomy = either("r", good=worlds.terms(where="model=b"), poor=worlds.terms())
    pods = [[claim(roomy, name=f"p{i}")] for i in range(6)]
    gang = cluster.schedule_gang(pods)
    cluster.verify(gang)
    assert len(gang.nodes) == 6


def test_a_gang_gets_other_devices_after_common_ones_took_too_much():
    own = [
        published_slice(f"s-{node}", [device("d0"), device("d1")], pool=node, nodeName=node)
        for node in ("n1", "n2")
    ]
    large = device("c", capacity={"m": "4"})
    cluster = cluster_of(*own, published_slice("common", [large], pool="common", allNodes=True))
    pods = [[claim(request("r", 2), name=f"p{i}")] for i in range(2)]
    gang = cluster.schedule_gang(pods, within={("any", "capacity", "m"): 3})
    cluster.verify(gang)
    for decision in gang.decisions:
        assert [given.device.device for given in decision.devices] == ["d0", "d1"]
        cluster.commit(decision)
    cluster.check()


def test_a_new_question_looks_at_present_states_alone(monkeypatch):
    cluster, looked = cluster_of(*two_nodes()), []
    for turn in range(4):
        cluster.commit(cluster.schedule([claim(request("r"), name=f"p{turn}")]))
    answer = ClaimKind.answer

    def counted(kind, node_class, *arguments):
        looked.append(node_class)
        return answer(kind, node_class, *arguments)

    monkeypatch.setattr(ClaimKind, "answer", counted)
    new = [claim(request("r", 2), name="new")]
    assert cluster.schedule(new) is None
    assert len(looked) == 2
    for turn in range(4):  # back in states that the question has not looked at
        cluster.release(f"/p{turn}")
    assert cluster.schedule(new, prefer="name").node == "n1"
    assert cluster.schedule(new).node == "n2"


# --- errors


def test_objects_that_break_a_rule_change_nothing():
    cluster = cluster_of(*two_nodes())
    cluster.commit(cluster.schedule([claim(request("r"), name="a")]))
    before = cluster.to_bytes()
    taken = cluster.allocate([claim(request("r", 1), name="x")], "n1").allocations[0]
    other = worlds.holder("new", taken)
    fine = worlds.object_of("ResourceSlice", gpus(1, pool="new"))
    huge = worlds.object_of(
        "ResourceSlice", published_slice("h", [worlds.shared("d", {"m": str(2**62)})], pool="h")
    )
    wrong = {"kind": "Pod", "metadata": {"name": "p"}}
    negative = copy.deepcopy(other)
    negative["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"] = {"m": "-1"}
    no_names = [
        worlds.holder("new", worlds.allocation({"device": "d1", **fields}))
        for fields in ({"driver": 5}, {"device": ["d1"]}, {"shareID": 5}, {"shareID": ["s"]})
    ]
    for objects, error, text in (
        ([fine, other, worlds.holder("newer", taken)], ValueError, "is in use"),
        ([fine, huge], ValueError, "exceeds 62 bits"),
        ([fine, wrong], ValueError, r"objects\[1\]: kind 'Pod'"),
        ([fine, 3], TypeError, r"objects\[1\]"),
        ([fine, negative], ValueError, "negative"),
        *(([fine, of], ValueError, "'new': .*a name is no string") for of in no_names),
    ):
        with pytest.raises(error, match=text):
            cluster.update(*objects)
        assert cluster.to_bytes() == before
        cluster.check()


def test_a_share_without_an_id_of_its_own_is_refused():
    ids = iter(["s", "s", ""])
    cluster = DraCluster(share_id=lambda: next(ids))
    cluster.update(worlds.object_of("DeviceClass", worlds.device_class()))
    shares = published_slice("s", [worlds.shared("d", {"m": "8"})])
    cluster.update(worlds.object_of("ResourceSlice", shares))
    first, *others = [claim(request("r", capacity={"m": "2"}), name=name) for name in "abc"]
    cluster.commit(cluster.allocate([first], "n1"))
    before = cluster.to_bytes()
    for other in others:
        with pytest.raises(ValueError, match="share_id"):
            cluster.commit(cluster.allocate([other], "n1"))
    assert cluster.to_bytes() == before
    cluster.check()


@pytest.mark.parametrize(
    ("field", "wrong"), [("kind", "Pod"), ("apiVersion", "resource.k8s.io/v1beta1")]
)
def test_a_wrong_object_is_refused_though_a_claim_with_its_spec_was_seen(field, wrong):
    cluster = cluster_of(gpus(1))
    cluster.allocate([claim(request("r"))], "n1")
    with pytest.raises(ValueError, match=field):
        cluster.allocate([claim(request("r"), name="other") | {field: wrong}], "n1")


def test_unknown_names_and_wrong_arguments():
    cluster = cluster_of(*two_nodes())
    with pytest.raises(KeyError, match="n9"):
        cluster.allocate([claim(request("r"))], "n9")
    with pytest.raises(KeyError, match="n9"):
        cluster.schedule([claim(request("r"))], nodes=["n1", "n9"])
    with pytest.raises(KeyError, match="holds no devices"):
        cluster.release("x")
    with pytest.raises(KeyError, match="no Node"):
        cluster.remove("Node", "n9")
    with pytest.raises(ValueError, match="mode"):
        cluster.allocate([claim(request("r"))], "n1", "quick")
    with pytest.raises(TypeError, match="claims"):
        cluster.allocate([7], "n1")
    with pytest.raises(ValueError, match="allocated"):
        cluster.commit(cluster.allocate([claim(request("r", 9))], "n1"))
    with pytest.raises(ValueError, match="two pods"):
        cluster.schedule_gang([[claim(request("r"))]] * 2)
    with pytest.raises(CorruptStateError):
        DraCluster.from_bytes(cluster.to_bytes()[:-1])


def test_removed_objects_are_gone():
    cluster = cluster_of(*two_nodes())
    cluster.commit(cluster.allocate([claim(request("r", 2), name="a")], "n2"))
    cluster.remove("ResourceSlice", "sn2")
    assert cluster.nodes == ("n1",)
    cluster.check()
    cluster.release("/a")
    cluster.check()
    cluster.remove("DeviceClass", "any")
    decision = cluster.allocate([claim(request("r"))], "n1")
    assert decision.problems[0].code == "class_not_found"


def test_records_and_objects_are_the_same_to_it():
    cluster = DraCluster(worlds.EVERY_GATE, evaluator=worlds.matches)
    cluster.update(*(ResourceSlice.of(entry) for entry in two_nodes()))
    cluster.update(worlds.object_of("DeviceClass", worlds.device_class()))
    each = claim(request("r", 2), name="a")
    assert cluster.allocate([each], "n1").devices == (
        cluster.allocate([ResourceClaim.of(each)], "n1").devices
    )


def test_what_a_claim_holds_passes_to_another_one_and_back_in_a_trial():
    cluster = cluster_of(gpus(2))
    for name in ("a", "b"):
        cluster.commit(cluster.allocate([claim(request("r"), name=name)], "n1"))
    before = cluster.to_bytes()
    with cluster.trial():
        cluster.rename("/a", "/c")
        assert ("/a" in cluster, "/c" in cluster, cluster.claims) == (False, True, ("/b", "/c"))
        cluster.check()
        cluster.release("/c")
    assert cluster.to_bytes() == before
    with pytest.raises(KeyError, match="old='/c'"):
        cluster.rename("/c", "/d")
    with pytest.raises(ValueError, match="new='/b'"):
        cluster.rename("/a", "/b")


def test_nodes_of_equal_score_are_chosen_by_name_whatever_happened_before():
    nodes = [f"n{i}" for i in range(4)]
    slices = [
        published_slice(f"s-{node}", [device("d0"), device("d1")], pool=node, nodeName=node)
        for node in nodes
    ]
    cluster = cluster_of(*slices)
    for node, number in (("n3", 0), ("n2", 0), ("n1", 1), ("n0", 1)):
        held = worlds.allocation(f"d{number}", pool=node)
        cluster.update(worlds.holder(f"held {node}", held))
        requests = [claim(request("r"))]
        assert cluster.schedule(requests).node == node == cluster.copy().schedule(requests).node
    cluster.release("/held n0")
    assert cluster.schedule([claim(request("r"))]).node == "n1"


def test_a_decision_takes_other_ids_of_shares():
    cluster = cluster_of(published_slice("s", [worlds.shared("d", {"memory": "8"})]))
    wish = claim(request("r", capacity={"memory": "2"}), name="c")
    decision = cluster.allocate([wish], "n1")
    other = decision.with_share_ids(lambda item, number: f"{item.name}{number}")
    ((result,),) = (allocation["devices"]["results"] for allocation in other.allocations)
    assert result["shareID"] == "c0"
    assert decision.allocations[0]["devices"]["results"][0]["shareID"] == "share-0"
    cluster.commit(other)
    cluster.check()


def test_a_cluster_that_lives_long_remembers_a_bounded_number_of_classes(monkeypatch):
    monkeypatch.setattr(Classes, "_MOST_EMPTY", 2)
    cluster = cluster_of(*two_nodes())
    for turn in range(40):
        count = 1 + turn % 3
        for model in ("a", "b")[turn % 2 :]:
            each = claim(request("r", 1 + turn % 2, where=f"model={model}"), name=f"{model}{turn}")
            decision = cluster.schedule([each], prefer=["packed", "spread"][count % 2])
            if decision is not None:
                cluster.commit(decision)
        for owner in cluster.claims[count - 1 :]:
            cluster.release(owner)
        cluster.check()
        fits = cluster.fits([claim(request("r", 2), name="new")]).nodes
        best = cluster.schedule([claim(request("r", 2), name="new")], prefer="spread")
        assert (best.node in fits) if fits else best is None
        assert len(cluster._classes._of) <= 8
        assert len(cluster._classes.log) <= 40


@pytest.mark.parametrize("order", [*permutations(("model", "root", "numa"))])
def test_attributes_that_are_looked_at_later_count_as_if_they_always_had(order):
    nodes = []
    for i in range(4):
        own = {"model": "ab"[i % 2], "gpu.x/numa": i}
        devices = [device(f"d{j}", own | {"root": j % 2}) for j in range(3)]
        nodes.append(published_slice(f"s{i}", devices, pool=f"n{i}", nodeName=f"n{i}"))
    cluster = cluster_of(*nodes)
    cluster.commit(cluster.schedule([claim(request("r"), name="first")]))
    for name in order:
        wish = claim(request("r", 3), match=f"gpu.x/{name}")
        fresh = cluster.copy()
        assert dict(cluster.fits([wish])) == dict(fresh.fits([wish]))
        cluster.check()
    assert len([*cluster._classes]) == 4


def test_an_attribute_is_looked_at_first_after_a_trial_with_other_devices():
    cluster = cluster_of(*two_nodes(), evaluator=None)
    with cluster.trial():
        cluster.commit(cluster.allocate([claim(request("r"), name="a")], "n1"))
        fewer = published_slice("sn1", [device("d0")], pool="n1", generation=2)
        cluster.update(worlds.object_of("ResourceSlice", fewer))
        assert cluster.fits([claim(request("r", 2))]).nodes == ("n2",)
    assert cluster.fits([claim(request("r", 2), match="gpu.x/model")]).nodes == ("n1", "n2")
    cluster.check()


# --- counters of devices in use, while slices are removed and published again


def _of_pool(name, **content):
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": "x", "nodeName": "n1", "pool": pool, **content}
    return {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def _taking_counter(name):
    uses = {"counterSet": "g", "counters": {"m": {"value": "1"}}}
    return {"name": name, "consumesCounters": [uses]}


COUNTERS = [
    {"kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}},
    _of_pool("s1", devices=[_taking_counter("a"), _taking_counter("b")]),
    _of_pool("s2", sharedCounters=[{"name": "g", "counters": {"m": {"value": "1"}}}]),
]


def _wanting(name):
    request = {"name": "r", "exactly": {"deviceClassName": "any"}}
    spec = {"devices": {"requests": [request]}}
    return {"kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def held():
    """A claim that holds one of two devices, which share a counter of one unit."""
    cluster = DraCluster()
    cluster.update(*COUNTERS)
    (allocation,) = cluster.allocate([_wanting("held")], "n1").allocations
    return _wanting("held") | {"status": {"allocation": allocation}}


def _is_full(cluster):
    cluster.check()
    assert DraCluster.from_bytes(cluster.to_bytes()).to_bytes() == cluster.to_bytes()
    return cluster.allocate([_wanting("other")], "n1").outcome == "unsatisfiable"


def test_counters_of_a_device_in_use_are_charged_whatever_comes_first(held):
    kind, first, second = COUNTERS
    for groups in (
        [[*COUNTERS, held]],
        [[held, *COUNTERS]],
        [[held], COUNTERS],
        [[kind], [second], [held], [first]],
        [COUNTERS, [held]],
    ):
        cluster = DraCluster()
        for group in groups:
            cluster.update(*group)
        assert _is_full(cluster), groups
        cluster.release("/held")
        assert not _is_full(cluster)


def test_a_claim_that_is_reported_again_keeps_its_counters_while_its_slice_is_gone(held):
    cluster = DraCluster()
    cluster.update(*COUNTERS, held)
    cluster.remove("ResourceSlice", "s1")
    cluster.update(held)
    cluster.update(COUNTERS[1])
    assert _is_full(cluster)


def test_counters_that_a_trial_charges_are_not_charged_afterwards(held):
    kind, first, second = COUNTERS
    cluster = DraCluster()
    cluster.update(kind, second, held)
    before = cluster.to_bytes()
    with cluster.trial():
        cluster.update(first)
        assert _is_full(cluster)
        cluster.release("/held")
    with cluster.trial():
        cluster.release("/held")
    assert cluster.to_bytes() == before
    cluster.update(first)
    assert _is_full(cluster)


def test_a_claim_with_an_amount_too_small_to_count_is_refused_and_changes_nothing():
    def node(name):
        capacity = {"memory": {"value": "80Gi"}}
        shared = {"name": "a", "allowMultipleAllocations": True, "capacity": capacity}
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "x", "nodeName": name, "pool": pool, "devices": [shared]}
        return {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}

    cluster = DraCluster()
    cluster.update(COUNTERS[0], node("n1"), node("n2"))
    before = cluster.to_bytes()
    result = {"request": "r", "driver": "x", "pool": "n1", "device": "a", "shareID": "1"}
    result["consumedCapacity"] = {"memory": "1n"}
    tiny = {"status": {"allocation": {"devices": {"results": [result]}}}}
    with pytest.raises(ValueError, match=r"'held'.*consumedCapacity\.memory"):
        cluster.update(_wanting("held") | tiny)
    assert cluster.to_bytes() == before
    assert cluster.allocate([_wanting("other")], "n2").outcome == "allocated"


def test_a_claim_does_not_get_the_status_of_another_with_the_same_request(held):
    cluster = DraCluster()
    cluster.update(*COUNTERS)
    cluster.allocate([held], "n1")
    (other,) = cluster.allocate([_wanting("other")], "n1").claims
    assert other.allocation is None


@pytest.mark.parametrize("change", ["undone", "refused"])
def test_a_limit_counts_a_whole_device_of_an_amount_that_has_come_back(change):
    kind = worlds.object_of("DeviceClass", worlds.device_class())
    fine, coarse = (
        worlds.object_of("ResourceSlice", published_slice("s", [device("d", {}, {"m": size})]))
        for size in ("1n", "80Gi")
    )
    cluster = DraCluster()
    cluster.update(kind, fine)
    if change == "undone":
        with cluster.trial():
            cluster.update(coarse)
    else:
        with pytest.raises(ValueError, match="exceeds 62 bits"):
            cluster.update(coarse, *of_sizes(n2="1n"))
    wanted = [claim(request("r"))]
    for most, outcome in ((1, "allocated"), (0, "unsatisfiable")):
        assert (
            cluster.allocate(wanted, "n1", within={("any", "capacity", "m"): most}).outcome
            == outcome
        )
