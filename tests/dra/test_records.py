"""Objects of Kubernetes as records: what is read, what is refused, and by which words."""

import re
import sys
from fractions import Fraction
from itertools import pairwise

import pytest
from dra.worlds import (
    World,
    claim,
    consumption,
    counter_slice,
    device,
    either,
    gpus,
    published_slice,
    request,
    shared,
    terms,
)

from hivecore.dra import (
    DeviceClass,
    KubernetesFeatures,
    Node,
    ResourceClaim,
    ResourceSlice,
    SemanticVersion,
)


def of_device(name="d", **fields):
    return published_slice("s", [{"name": name, **fields}])


def of_policy(policy, value="4"):
    return published_slice("s", [shared("d", {"m": {"value": value, "requestPolicy": policy}})])


MANY = [{"key": f"k{i}", "effect": "NoSchedule"} for i in range(17)]
SETS = {f"set{i}": {"x": 1} for i in range(9)}


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (of_device(capacity={"m": {"value": "1Q"}}), "devices[0].capacity['m'].value: '1Q' is no"),
        (of_device(capacity={"m": {"value": "-1"}}), "devices[0].capacity['m'].value: '-1' is neg"),
        (of_device(capacity={"m": {"value": 2**300}}), "devices[0].capacity['m'].value=a huge "),
        (of_device(capacity={"m": {"value": [1]}}), "devices[0].capacity['m'].value must be a qu"),
        (of_device(capacity={"m": {}}), "devices[0].capacity['m'].value: is missing"),
        (of_device(7), "spec.devices[0].name: must be a string, not 7"),
        (of_device(attributes={"a": {"int": 1, "bool": True}}), "devices[0].attributes['a'].bool"),
        (of_device(attributes={"a": {"int": 2**63}}), "devices[0].attributes['a'].int: "),
        (of_device(attributes={"a": {"int": True}}), "devices[0].attributes['a'].int: must be an"),
        (of_device(attributes={"a": {"string": "x" * 65}}), "devices[0].attributes['a'].string"),
        (of_device(attributes={"a": {"strings": []}}), "devices[0].attributes['a'].strings"),
        (of_device(attributes={"a": {"version": "v1.2.3"}}), "devices[0].attributes['a'].version"),
        (of_device(attributes={"a": {"ints": list(range(49))}}), "devices[0].attributes: more"),
        (of_device(attributes={str(i): {"int": 1} for i in range(33)}), "devices[0].attributes: "),
        (of_device(consumesCounters=[consumption("s", x=1)] * 2),
         "devices[0].consumesCounters[1].counterSet: 's' is used twice"),
        (of_device(consumesCounters=[{"counterSet": "", "counters": {"x": {"value": 1}}}]),
         "devices[0].consumesCounters[0].counterSet: must not be empty"),
        (of_device(consumesCounters=[consumption(str(i), x=1) for i in range(3)]),
         "devices[0].consumesCounters: 3 entries"),
        (of_device(consumesCounters=[{"counterSet": "s", "counters": {}}]),
         "devices[0].consumesCounters[0].counters: "),
        (of_device(taints=MANY), "devices[0].taints: 17 entries"),
        (of_device(taints=[{"key": "k"}]), "devices[0].taints[0].effect: is missing"),
        (of_device(taints=[{"key": "k", "effect": "Bad"}]), "taints[0].effect: must be one of NoS"),
        (of_device(nodeName="n"), "devices[0].nodeName: needs perDeviceNodeSelection"),
        (of_device(nodeName="n", allNodes=True), "devices[0].allNodes: nodeName is set as well"),
        (of_device(bindingConditions=["a"]), "devices[0].bindingFailureConditions: must be set"),
        (of_device(bindingConditions=["a"], bindingFailureConditions=["a"]),
         "devices[0].bindingFailureConditions[0]: is among"),
        (of_device(bindingConditions=list("abcde"), bindingFailureConditions=["f"]),
         "devices[0].bindingConditions: 5 entries"),
        (of_device(capacity={"m": {"value": 1, "requestPolicy": {}}}),
         "devices[0].capacity['m'].requestPolicy: the device does not allow"),
        (of_policy({"validValues": ["1"]}), "devices[0].capacity['m'].requestPolicy.default: must"),
        (of_policy({"default": "1", "validValues": ["2"]}), "requestPolicy.default: not among"),
        (of_policy({"default": "1", "validValues": ["1", "1"]}), "requestPolicy.validValues[1]: "),
        (of_policy({"default": "1", "validValues": ["1", "5"]}), "requestPolicy.validValues: exc"),
        (of_policy({"default": 1, "validValues": list(range(11))}, 99), "validValues: 11 entries"),
        (of_policy({"default": "1", "validRange": {"max": "2"}}), "validRange.min: is missing"),
        (of_policy({"default": "1", "validRange": {"min": "2"}}), "requestPolicy.default: not bet"),
        (of_policy({"default": "1", "validRange": {"min": "1", "max": "5"}}), "validRange.max: "),
        (of_policy({"default": "1", "validRange": {"min": "1", "max": "4", "step": "2"}}),
         "validRange.max: not a whole number of steps"),
        (of_policy({"default": "1", "validRange": {"min": "1", "step": "0"}}), "validRange.step: "),
        (of_policy({"default": "1", "validRange": {"min": "1", "step": "4"}}), "validRange.step: "),
        (of_policy({"default": 1, "validRange": {"min": 1}, "validValues": [1]}), "validRange: "),
        (published_slice("s", [device("d"), device("d")]), "devices[1].name: 'd' is used twice"),
        (gpus(129), "devices: 129 entries, at most 128"),
        (published_slice("s", [*gpus(64)["spec"]["devices"], device("d", taints=MANY[:1])]),
         "devices: 65 entries, at most 64"),
        (published_slice("s", nodeName="n", allNodes=True), "allNodes: nodeName is set as well"),
        (published_slice("s", nodeSelector={"nodeSelectorTerms": []}), "nodeSelector.nodeS"),
        (counter_slice("s", {"x": {"y": 1}}, devices=[device("d")]),
         "sharedCounters: devices is set as well"),
        (counter_slice("s", SETS), "sharedCounters: 9 entries"),
        (published_slice("s", driver="x" * 64), "driver: must have 1 to 63"),
        (published_slice("s", count=0), "pool.resourceSliceCount: "),
        (published_slice("s", generation=-1), "pool.generation: "),
        (gpus(1) | {"spec": None}, "spec.driver: is missing"),
        (gpus(1) | {"spec": 3}, "spec: must be a mapping, not 3"),
        (published_slice("s", {"a": 1}), "spec.devices[0]: must be a mapping, not 'a'"),
        (published_slice("s", sharedCounters={}), "spec.sharedCounters: must be a list, not a map"),
        (of_device(attributes=[1]), "spec.devices[0].attributes: must be a mapping, not a list"),
        (of_device(attributes={1: {}}), "spec.devices[0].attributes: the key 1 must be a string"),
        (of_device(allNodes="yes"), "spec.devices[0].allNodes: must be true or false, not 'yes'"),
        (gpus(1) | {"apiVersion": "resource.k8s.io/v1beta1"}, "apiVersion: 'res"),
        (gpus(1) | {"kind": "Pod"}, "kind: 'Pod' instead of ResourceSlice"),
    ],
)  # fmt: skip
def test_a_slice_that_breaks_a_rule_is_refused_with_its_name_and_the_path(document, path):
    with pytest.raises(ValueError, match=r"^ResourceSlice 's': ") as error:
        ResourceSlice.of(document)
    assert path in str(error.value)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (claim(request("r"), request("r")), "requests[1].name: 'r' is used twice"),
        (claim({"name": "r"}), "requests[0].exactly: one of exactly, firstAvailable must be set"),
        (claim(request("r") | either("r", s={})), "requests[0].firstAvailable: exactly is"),
        (claim(either("r", **{f"s{i}": terms() for i in range(9)})), "firstAvailable: 9"),
        (claim(request("r", allocationMode="All", count=1)), "requests[0].exactly.count: must"),
        (claim(request("r", 0)), "requests[0].exactly.count: 0 is not within"),
        (claim(request("r", 2**63)), "requests[0].exactly.count: "),
        (claim(request("r", "2")), "spec.devices.requests[0].exactly.count: must be an integer"),
        (claim(request("r", where="x" * 10241)), "selectors[0].cel.expression: "),
        (claim(request("r", selectors=[{}] * 33)), "requests[0].exactly.selectors: 33 entries"),
        (claim(request("r", tolerations=[{}])), "requests[0].exactly.tolerations[0].operator: "),
        (claim(*[request(f"r{i}") for i in range(33)]), "requests: 33 entries, at most 32"),
        (claim({"exactly": {}}), "spec.devices.requests[0].name: is missing"),
        (claim(request("r")) | {"spec": {"devices": [1]}}, "spec.devices: must be a mapping"),
        (claim(request("r")) | {"status": {"allocation": 1}}, "status.allocation: must be a mapp"),
        (claim(request("r"), match="model"), "constraints[0].matchAttribute: 'model' is not of"),
        (claim(request("r"), distinct="a/b/c"), "constraints[0].distinctAttribute: "),
        (claim(request("r"), match=("d/a", "q")), "constraints[0].requests[0]: no request 'q'"),
        (claim(request("r"), match=("d/a", "r/s")), "constraints[0].requests[0]: no request 'r/s'"),
        (claim(request("r"), match=("d/a", "r", "r")), "constraints[0].requests[1]: 'r' is"),
        (claim(request("r"), config=[{"requests": ["r/r/r"]}]), "config[0].requests[0]: no"),
        (claim(request("r"), constraints=[{"matchAttribute": "d/a", "distinctAttribute": "d/a"}]),
         "constraints[0].distinctAttribute: matchAttribute is set as well"),
    ],
)  # fmt: skip
def test_a_claim_that_breaks_a_rule_is_refused_with_its_name_and_the_path(document, path):
    with pytest.raises(ValueError, match=r"^ResourceClaim 'c': ") as error:
        ResourceClaim.of(document)
    assert path in str(error.value)


def test_an_error_names_the_namespace_and_the_fields_of_metadata():
    document = claim(request("r", "2"))
    document["metadata"] |= {"namespace": "team"}
    path = "requests[0].exactly.count: must be an integer, not '2'"
    with pytest.raises(ValueError, match=re.escape(f"ResourceClaim 'team/c': spec.devices.{path}")):
        ResourceClaim.of(document)
    template = {"metadata": document["metadata"], "spec": {"spec": document["spec"]}}
    expected = f"ResourceClaimTemplate 'team/c': spec.spec.devices.{path}"
    with pytest.raises(ValueError, match=re.escape(expected)):
        ResourceClaim.of_template(template)
    document["metadata"]["namespace"] = 3
    with pytest.raises(ValueError, match=r"ResourceClaim 'c': metadata\.namespace: must be a"):
        ResourceClaim.of(claim(request("r")) | {"metadata": document["metadata"]})


@pytest.mark.parametrize("document", [{}, {"metadata": None}, {"metadata": {"name": ""}}, {1: 2}])
def test_an_object_without_a_name_is_refused(document):
    for kind in (ResourceSlice, DeviceClass, ResourceClaim, Node):
        with pytest.raises(ValueError, match=f"^{kind.__name__} without a name: metadata.name"):
            kind.of(document)
    with pytest.raises(TypeError, match="ResourceSlice must be a mapping, not int"):
        ResourceSlice.of(3)


def test_unknown_fields_are_ignored_and_null_is_absent():
    document = of_device(new={"field": 1}, taints=None, attributes={"a": {"float": 1.5}})
    document["spec"] |= {"later": [None], "nodeSelector": None}
    (entry,) = ResourceSlice.of(document).devices
    assert (entry.taints, entry.attributes["a"].kind) == ((), "")
    config = {"opaque": {"driver": "d", "parameters": {"kept": None}}}
    result = ResourceClaim.of(claim(request("r", tolerations=None), config=[config]))
    assert result.config[0].opaque.parameters == {"kept": None}


def test_objects_that_are_nested_without_end_are_refused():
    endless = {}
    endless["self"] = endless
    assert ResourceSlice.of(gpus(1) | {"status": endless}).name == "s"
    with pytest.raises(ValueError, match="ResourceSlice 's': it is nested too deeply"):
        ResourceSlice.of(published_slice("s", new=endless, allNodes=None))


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1500m", Fraction(3, 2)),
        ("1u", Fraction(1, 10**6)),
        ("0.1n", Fraction(1, 10**9)),
        ("1.5Ki", 1536),
        ("80Gi", 80 << 30),
        ("16E", 16 * 10**18),
        ("1e20", 10**20),
        (0.1, Fraction(1, 10)),
        (2**100, 2**100),
        (str(2**63), 2**63),
    ],
)
def test_amounts_are_exact(text, amount):
    (entry,) = ResourceSlice.of(of_device(capacity={"m": {"value": text}})).devices
    assert entry.capacity["m"].value == amount


def test_semantic_versions_are_strict_and_ordered_by_precedence():
    order = "1.0.0-1 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta.2 1.0.0-beta.11"
    texts = [*order.split(), "1.0.0-rc.1", "1.0.0", "1.2.0", "1.10.0"]
    versions = [SemanticVersion.of(text) for text in texts]
    assert all(a < b and b > a and a <= b and not a >= b for a, b in pairwise(versions))
    plain, built = SemanticVersion.of("1.0.0"), SemanticVersion.of("1.0.0+x")
    assert plain == built and hash(plain) == hash(built) and plain <= built
    for text in (
        "1",
        "1.2",
        "v1.2.3",
        "01.2.3",
        "1.2.3-01",
        "1.2.3-",
        "1.2.3+",
        "1.2.3.4",
        "",
        f"{2**64}.0.0",
        "1.2.3\n",
    ):
        with pytest.raises(ValueError, match="is no semantic version"):
            SemanticVersion.of(text)


def test_features_follow_the_version_and_what_is_changed():
    of = KubernetesFeatures.of
    by_default = [
        of(version).has("DRAPartitionableDevices") for version in ("1.34", "1.35", "1.36")
    ]
    assert by_default == [False, False, True]
    assert of("1.35", {"DRADeviceTaints": True}).has("DRADeviceTaints")
    only = of("1.37", ["DRADeviceTaints"])
    assert only.enabled == {"DRADeviceTaints", "DRAPrioritizedList"}
    for gates, says in (
        ({"DRAPrioritizedList": False}, "DRAPrioritizedList is locked in Kubernetes 1.37"),
        ({"DRANoSuch": True}, "gates of Kubernetes 1.37 must be one of"),
    ):
        with pytest.raises(ValueError, match=says):
            of("1.37", gates)
    with pytest.raises(ValueError, match=r"version must be one of 1\.34"):
        of("1.33")
    with pytest.raises(TypeError, match="gates must be a mapping or names, not str"):
        of("1.37", "DRADeviceTaints")


def calls_to_read(slices):
    """How many Python functions are called until the pools of so many slices are known."""
    document, attributes = gpus(100), {"model": {"string": "H100"}, "size": {"int": 80}}
    for entry in document["spec"]["devices"]:
        entry["attributes"] = attributes
    documents = [
        document
        | {"metadata": {"name": name}}
        | {"spec": document["spec"] | {"pool": document["spec"]["pool"] | {"name": name}}}
        for name in (f"s{number:04}" for number in range(slices))
    ]
    calls = []
    sys.setprofile(lambda frame, event, _: event == "call" and calls.append(frame.f_code))
    try:
        pools = World(*documents).pools()
    finally:
        sys.setprofile(None)
    assert len(pools) == slices
    return len(calls)


def test_the_work_to_read_slices_and_gather_their_pools_grows_with_their_number():
    assert calls_to_read(200) < 2.1 * calls_to_read(100)
