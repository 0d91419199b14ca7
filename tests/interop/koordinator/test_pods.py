"""Requests of pods by Koordinator's rules: ways to ask, hints, joint types, admission."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.hostile import broken, refused_clearly
from interop.koordinator.objects import HINT, JOINT, SPEC, pod
from profiles import examples

from hivecore.devices import DeviceRequest, LabelExpression
from hivecore.interop.koordinator import COMBINATIONS, read_pod, with_default_shared

K = "koordinator.sh/"
NPU = "huawei.com/npu-"
GI = 1 << 30


def ask(*pairs, annotations=None, **fields):
    limits = dict(zip(pairs[::2], pairs[1::2], strict=True))
    texts = {key: json.dumps(value) for key, value in (annotations or {}).items()}
    return read_pod(pod(limits, texts, **fields))


def need(request, type_="gpu"):
    need = request.need(type_)
    return need.count, dict(need.amounts)


SHARED, CORE, MEMORY, RATIO, GPU = (
    f"{K}gpu{end}" for end in (".shared", "-core", "-memory", "-memory-ratio", "")
)
PART, DVPP = (NPU + "core", 4, NPU + "cpu", 1), NPU + "dvpp"
WHOLE = {"core": 100, "memory_ratio": 100}

ACCEPTED = [
    (("nvidia.com/gpu", 2), (2, WHOLE)),
    (("amd.com/gpu", 1), (1, WHOLE)),
    (("dcu.com/gpu", 8), (8, WHOLE)),
    ((GPU, 50), (1, {"core": 50, "memory_ratio": 50})),
    ((MEMORY, "8Gi"), (1, {"memory": 8 * GI})),
    ((RATIO, 30), (1, {"memory_ratio": 30})),
    ((CORE, 60, MEMORY, "8Gi"), (1, {"core": 60, "memory": 8 * GI})),
    ((CORE, 200, RATIO, 200), (2, WHOLE)),
    ((NPU + "core", 20, RATIO, 100), (1, {"npu_core": 20, "memory_ratio": 100})),
    ((SHARED, 2, MEMORY, "16Gi"), (2, {"memory": 8 * GI})),
    ((SHARED, 2, RATIO, 100), (2, {"memory_ratio": 50})),
    ((SHARED, 3, CORE, 90, MEMORY, "3Gi"), (3, {"core": 30, "memory": GI})),
    ((SHARED, 2, CORE, 100, RATIO, 200), (2, {"core": 50, "memory_ratio": 100})),
    ((SHARED, 1, *PART, MEMORY, "12Gi"), (1, {"memory": 12 * GI, "npu_core": 4, "npu_cpu": 1})),
    (
        (SHARED, 1, *PART, DVPP, 100, MEMORY, "12Gi"),
        (1, {"memory": 12 * GI, "npu_core": 4, "npu_cpu": 1, "npu_dvpp": 100}),
    ),
    ((K + "rdma", 30), (1, {"share": 30})),
    ((K + "fpga", 300), (3, {"share": 100})),
]


@pytest.mark.parametrize(("wanted", "expected"), ACCEPTED)
def test_each_accepted_combination_comes_to_devices_that_give_the_same(wanted, expected):
    type_ = {K + "rdma": "rdma", K + "fpga": "fpga"}.get(wanted[0], "gpu")
    assert need(ask(*wanted), type_) == expected


def test_the_accepted_combinations_are_the_seventeen_of_koordinator():
    ways = [frozenset(names) for ways in COMBINATIONS.values() for names in ways]
    assert len(ways) == len(set(ways)) == 17
    assert set(ways) == {frozenset(wanted[::2]) for wanted, _ in ACCEPTED}


REFUSED = [
    ((GPU, 150), "gpu=150: above 100 only multiples of 100"),
    ((RATIO, 101), "gpu-memory-ratio=101: above 100 only multiples"),
    ((CORE, 250, MEMORY, "1Gi"), "gpu-core=250: above 100 only multiples"),
    ((CORE, 100, RATIO, 199), "gpu-memory-ratio=199: above 100"),
    ((NPU + "core", 1, RATIO, 150), "gpu-memory-ratio=150: above 100"),
    ((K + "rdma", 150), "rdma=150: above 100 only multiples of 100"),
    ((K + "fpga", 201), "fpga=201: above 100 only multiples of 100"),
    ((SHARED, 3, RATIO, 100), "gpu-memory-ratio=100: must be a multiple"),
    (
        (SHARED, 2, CORE, 55, MEMORY, "1Gi"),
        "gpu-core=55: must be a multiple of koordinator.sh/gpu.shared=2",
    ),
    ((SHARED, 2, RATIO, 202), "is more than 100 for each"),
    ((SHARED, 1, CORE, 101, RATIO, 100), "gpu-core=101: is more than 100 for each"),
    ((SHARED, 2, *PART, MEMORY, "1Gi"), "gpu.shared=2: parts of several NPUs"),
    ((SHARED, 1, *PART, DVPP, 101, MEMORY, "1Gi"), "npu-dvpp=101"),
    ((CORE, 50), "koordinator.sh/gpu-core is no way to ask for a gpu"),
    ((SHARED, 1), "gpu.shared is no way to ask"),
    (("nvidia.com/gpu", 1, GPU, 100), "is no way to ask"),
    (("nvidia.com/gpu", 1, "amd.com/gpu", 1), "is no way to ask"),
    ((MEMORY, "1Gi", RATIO, 10), "is no way to ask"),
    ((NPU + "core", 4, MEMORY, "1Gi"), "is no way to ask"),
    (("nvidia.com/gpu", 257), "count=257"),
    ((SHARED, 2, MEMORY, 1), "gpu-memory=1: nothing for each of 2"),
    ((MEMORY, 2**48 + 1), "allowed are 0 to"),
]


@pytest.mark.parametrize(("wanted", "says"), REFUSED)
def test_everything_else_is_refused_with_the_rule_it_breaks(wanted, says):
    with pytest.raises(ValueError, match=r"^spec\.containers: ") as caught:
        ask(*wanted)
    assert says in str(caught.value)


@given(
    st.dictionaries(
        st.sampled_from(sorted({n for w in COMBINATIONS["gpu"] for n in w})),
        st.integers(1, 400),
        min_size=1,
    )
)
@examples(300)
def test_any_other_set_of_resources_is_refused(limits):
    known = frozenset(limits) in {frozenset(names) for names in COMBINATIONS["gpu"]}
    try:
        request = read_pod(pod(limits))
    except ValueError as error:
        assert known != ("is no way to ask" in str(error))
    else:
        assert known
        assert 1 <= request.needs[0].count <= 256


def test_a_pod_without_devices_asks_for_none():
    assert read_pod(pod({"cpu": 4, GPU: 0})) is None
    assert read_pod({"metadata": {"name": "p"}}) is None


def test_the_whole_pod_is_one_owner():
    request = read_pod(pod([{CORE: 50}, {RATIO: 50}], name="q", priority=-7))
    assert request == DeviceRequest("default/q", 1, core=50, memory_percent=50, priority=-7)
    assert ask("nvidia.com/gpu", 1) == DeviceRequest("default/p", 1, priority=0)


def test_shares_of_several_containers_make_several_gpus():
    # After admission each container has gpu.shared = 1: two GPUs of a half each.
    both = with_default_shared(pod([{RATIO: 50}] * 2))
    assert need(read_pod(both)) == (2, {"memory_ratio": 50})


def test_half_a_percent_or_a_wrong_unit_is_refused_with_its_path():
    with pytest.raises(
        ValueError, match=r"^spec\.containers\[0\]\.resources\.limits\['koord.*gpu'\]"
    ):
        ask(GPU, "100m")
    with pytest.raises(TypeError, match=r"must be a quantity, .* not True"):
        ask(GPU, True)
    with pytest.raises(ValueError, match=r"gpu'\]=-1: allowed are 0"):
        ask(GPU, -1)


# --- hints


def test_nics_as_a_count_give_one_percent_each_and_all_of_it_if_exclusive():
    count = {"rdma": {"vfSelector": {}, "allocateStrategy": "RequestsAsCount"}}
    request = ask(K + "rdma", 2, annotations={HINT: count})
    assert need(request, "rdma") == (2, {"share": 1})
    assert request.need("rdma").vf_selector == ()
    count["rdma"] |= {"vfSelector": None, "exclusivePolicy": "DeviceLevel"}
    request = ask(K + "rdma", 2, annotations={HINT: count})
    assert need(request, "rdma") == (2, {"share": 100})
    assert request.need("rdma").vf_selector is None
    assert request.need("rdma").exclusive == "device"


def test_all_nics_with_a_label_are_asked_for_at_once():
    hint = {
        "rdma": {
            "allocateStrategy": "ApplyForAll",
            "selector": {
                "matchLabels": {"type": "storage"},
                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
            },
            "exclusivePolicy": "PCIeLevel",
        }
    }
    need = ask(K + "rdma", 100, annotations={HINT: hint}).need("rdma")
    assert (need.every, need.count, dict(need.amounts)) == (True, 1, {"share": 100})
    assert dict(need.selector) == {"type": "storage", "zone": "a"}
    assert need.exclusive == "pcie"


def test_expressions_of_a_selector_are_read_as_kubernetes_has_them():
    expressions = [
        {"key": "zone", "operator": "In", "values": ["b", "a"]},
        {"key": "type", "operator": "NotIn", "values": ["storage"]},
        {"key": "ready", "operator": "Exists", "values": []},
        {"key": "old", "operator": "DoesNotExist"},
    ]
    selector = {"matchLabels": {"rack": "r"}, "matchExpressions": expressions}
    hint = {"rdma": {"selector": selector, "vfSelector": selector}}
    need = ask(K + "rdma", 1, annotations={HINT: hint}).need("rdma")
    assert need.selector == need.vf_selector
    assert need.selector == (
        ("rack", "r"),
        LabelExpression("old", "DoesNotExist"),
        LabelExpression("ready", "Exists"),
        LabelExpression("type", "NotIn", ["storage"]),
        LabelExpression("zone", "In", ["a", "b"]),
    )


def test_labels_that_contradict_expressions_match_no_device():
    expressions = [{"key": "a", "operator": "In", "values": ["2"]}]
    hint = {"rdma": {"selector": {"matchLabels": {"a": "1"}, "matchExpressions": expressions}}}
    need = ask(K + "rdma", 1, annotations={HINT: hint}).need("rdma")
    assert need.selector == (("a", "1"), LabelExpression("a", "In", ["2"]))


@pytest.mark.parametrize("strategy", ["ApplyForAll", "RequestsAsCount"])
def test_hundreds_of_percent_are_devices_whatever_the_strategy(strategy):
    request = ask(K + "rdma", 200, annotations={HINT: {"rdma": {"allocateStrategy": strategy}}})
    assert need(request, "rdma") == (2, {"share": 100})
    assert not request.need("rdma").every


@pytest.mark.parametrize(
    ("word", "scope"),
    [("Device", "device"), ("PCIe", "pcie"), ("NUMANode", "numa"), ("Node", "node")],
)
def test_required_scopes_have_their_counterparts(word, scope):
    hint = {"gpu": {"requiredTopologyScope": word}}
    assert ask("nvidia.com/gpu", 2, annotations={HINT: hint}).need("gpu").scope == scope


def test_hints_of_types_that_are_not_asked_for_have_no_effect():
    hint = {"rdma": {"allocateStrategy": "ApplyForAll"}, "gpu": None, "tpu": "anything"}
    assert ask("nvidia.com/gpu", 1, annotations={HINT: hint}) == ask("nvidia.com/gpu", 1)


def selector(kind="selector", **expression):
    return {"gpu": {kind: {"matchExpressions": [expression]}}}


@pytest.mark.parametrize(
    ("annotation", "value", "says"),
    [
        (HINT, {"gpu": {"allocateStrategy": "All"}}, "gpu.allocateStrategy: must be one of"),
        (HINT, {"gpu": {"exclusivePolicy": "NUMALevel"}}, "gpu.exclusivePolicy: must be one of"),
        (HINT, {"gpu": {"requiredTopologyScope": "Rack"}}, "must be one of Device, PCIe"),
        (HINT, selector(key="a", operator="Gt"), "[0]: operator must be one of In, NotIn, Exists"),
        (HINT, selector(operator="Exists"), "gpu.selector.matchExpressions[0].key: is missing"),
        (HINT, selector(key="a"), "gpu.selector.matchExpressions[0].operator: is missing"),
        (
            *(HINT, selector("vfSelector", key="a", operator="In")),
            "gpu.vfSelector.matchExpressions[0]: values: operator 'In' needs one value at least",
        ),
        (
            *(HINT, selector(key="a", operator="DoesNotExist", values=["1"])),
            "matchExpressions[0]: values=['1']: operator 'DoesNotExist' takes none",
        ),
        (JOINT, {"deviceTypes": ["gpu", "gpu"]}, "deviceTypes[1]: 'gpu' stands there twice"),
        (JOINT, {"deviceTypes": ["gpu"], "requiredScope": "SameNUMA"}, "must be one of SamePCIe"),
        (SPEC, {"allocatePolicy": "Strict"}, "allocatePolicy: must be one of Restricted"),
        (SPEC, {"ringBusBandwidth": "fast"}, "ringBusBandwidth: 'fast' is no quantity"),
    ],
)
def test_unknown_words_in_annotations_are_refused(annotation, value, says):
    with pytest.raises(ValueError, match=r"^metadata\.annotations\['scheduling") as caught:
        ask("nvidia.com/gpu", 1, annotations={annotation: value})
    assert says in str(caught.value)


def test_an_annotation_that_is_no_json_is_refused():
    with pytest.raises(ValueError, match=r"device-allocate-hint'.: is no JSON"):
        read_pod(pod({"nvidia.com/gpu": 1}, {HINT: "{"}))


# --- joint types, partitions, isolation

BOTH = ("nvidia.com/gpu", 4, K + "rdma", 1)


def test_joint_types_keep_their_order_and_lose_those_without_a_choice():
    joint = {"deviceTypes": ["rdma", "fpga", "gpu", "tpu"], "requiredScope": "SamePCIe"}
    request = ask(*BOTH, annotations={JOINT: joint})
    assert (request.joint, request.same_pcie) == (("rdma", "gpu"), True)
    for amount in (1, 200):
        request = ask(
            *("nvidia.com/gpu", 4, K + "rdma", amount),
            annotations={JOINT: joint, HINT: {"rdma": {"allocateStrategy": "ApplyForAll"}}},
        )
        assert (request.joint, request.same_pcie) == ((), False)


def test_a_partition_is_wanted_as_the_proposal_writes_it():
    # Koordinator, docs/proposals/scheduling/20241008-gpu-partition-api.md
    spec = {"allocatePolicy": "Restricted", "ringBusBandwidth": "200Gi"}
    request = ask("nvidia.com/gpu", 1, annotations={SPEC: spec})
    assert (request.partition, request.bandwidth) == ("restricted", 200 * GI)
    request = ask("nvidia.com/gpu", 1, annotations={SPEC: {}})
    assert (request.partition, request.bandwidth) == ("best-effort", None)


def test_joint_types_partitions_and_isolation_of_few_devices():
    joint = ask("nvidia.com/gpu", 4, annotations={JOINT: {"deviceTypes": ["gpu", "rdma"]}})
    assert joint.joint == ()  # there is no second type
    shared = ask(GPU, 50, annotations={SPEC: {"allocatePolicy": "Restricted"}})
    assert shared.partition is None
    label = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
    assert ask(GPU, 50, labels=label).isolation_provider == "HAMi-core"


# --- admission


@pytest.mark.parametrize(
    ("limits", "added"),
    [
        ({RATIO: 200}, 2),
        ({RATIO: 100}, 1),
        ({RATIO: 50, CORE: 300}, 1),
        ({MEMORY: "8Gi", CORE: 300}, 3),
        ({MEMORY: "8Gi", CORE: 250}, 1),
        ({MEMORY: "8Gi"}, 1),
        ({GPU: 400}, 4),
        ({GPU: 40}, 1),
    ],
)
def test_admission_adds_the_number_of_gpus(limits, added):
    admitted = with_default_shared(pod(limits))
    built = admitted["spec"]["containers"][0]["resources"]["limits"]
    assert built[SHARED] == str(added)
    assert GPU not in built
    assert with_default_shared(admitted) == admitted


@pytest.mark.parametrize(
    "limits",
    [
        {"cpu": 1},
        {"nvidia.com/gpu": 1},
        {K + "rdma": 1},
        {SHARED: 7, MEMORY: 1},
        {NPU + "core": 20, RATIO: 100},
    ],
)
def test_admission_leaves_other_requests_alone(limits):
    before = pod(limits)
    assert with_default_shared(before) == before


@given(st.sampled_from([wanted for wanted, _ in ACCEPTED]))
@examples(40)
def test_what_is_accepted_is_accepted_after_admission_and_needs_the_same(wanted):
    limits = dict(zip(wanted[::2], wanted[1::2], strict=True))
    before = pod(limits)
    after = with_default_shared(before)
    assert before == pod(limits)
    assert read_pod(after).needs == read_pod(before).needs


def test_admission_writes_requests_where_there_are_some():
    both = {"resources": {"requests": {GPU: 100, "cpu": 1}, "limits": {GPU: 100}}}
    built = with_default_shared({"spec": {"containers": [both]}})["spec"]["containers"][0]
    assert built["resources"] == {
        "requests": {"cpu": 1, CORE: "100", RATIO: "100", SHARED: "1"},
        "limits": {CORE: "100", RATIO: "100", SHARED: "1"},
    }


# --- hostile pods

RICH = pod(
    [{CORE: "100", MEMORY: "1Gi", K + "rdma": 2}, {SHARED: 2}],
    {
        HINT: json.dumps({"rdma": {"vfSelector": {"matchLabels": {"a": "b"}}}}),
        JOINT: json.dumps({"deviceTypes": ["gpu", "rdma"]}),
        SPEC: json.dumps({"ringBusBandwidth": "1Gi"}),
    },
    {"koordinator.sh/gpu-isolation-provider": "x"},
    priority=5,
    initContainers=[{"restartPolicy": "Always", "resources": {"requests": {"cpu": 1}}}],
    overhead={"cpu": 1},
)
ANNOTATIONS = {
    HINT: {
        "rdma": {
            "selector": {
                "matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
            },
            "vfSelector": {"matchLabels": {"a": "b"}},
            "allocateStrategy": "RequestsAsCount",
            "exclusivePolicy": "PCIeLevel",
            "requiredTopologyScope": "PCIe",
        }
    },
    JOINT: {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"},
    SPEC: {"allocatePolicy": "Restricted", "ringBusBandwidth": "1Gi"},
}


@given(broken(RICH))
@examples(600)
def test_a_hostile_pod_is_refused_clearly_or_read(document):
    for read in (read_pod, with_default_shared):
        with refused_clearly():
            read(document)


@given(broken(ANNOTATIONS))
@examples(600)
def test_hostile_annotations_are_refused_clearly_or_read(annotations):
    try:
        texts = {key: json.dumps(value) for key, value in annotations.items()}
    except (TypeError, AttributeError):
        return
    for limits in ({"nvidia.com/gpu": 1, K + "rdma": 2}, {GPU: 1}):
        try:
            read_pod(pod(limits, texts))
        except (TypeError, ValueError) as error:
            assert type(error) in (TypeError, ValueError)
            assert str(error).startswith("metadata.annotations[")
