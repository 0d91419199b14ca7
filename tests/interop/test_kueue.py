"""Kueue's topologies, pod sets and assignments: the documented forms, wrong ones, a user's run."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.hostile import broken, refused_clearly
from profiles import examples

from hivecore.interop.kueue import (
    TopologyAssignment,
    read_assignment,
    read_pod_set,
    read_topology,
    topology_assignment,
    write_assignment,
)
from hivecore.topology import TopologyRequest

BLOCK, RACK = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"
HOST = "kubernetes.io/hostname"
KUEUE = "kueue.x-k8s.io"


def topology(*levels, version="v1beta2"):
    return {
        "apiVersion": f"{KUEUE}/{version}",
        "kind": "Topology",
        "metadata": {"name": "default"},
        "spec": {"levels": [{"nodeLabel": level} for level in levels]},
    }


def flavor(name="default", **labels):
    return {
        "apiVersion": f"{KUEUE}/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "tas"},
        "spec": {"nodeLabels": labels, "topologyName": name},
    }


def node(name, **labels):
    keys = {"block": BLOCK, "rack": RACK, "host": HOST}
    results = {keys.get(key, key): value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": results}}


#: Two blocks of two racks of two nodes; racks are called alike in both blocks.
NODES = [
    node(f"n{i}", block=f"b{i // 4}", rack=f"r{i // 2 % 2}", host=f"host-{i}", pool="tas")
    for i in range(8)
]


def pod_set(count=8, request=None, **annotations):
    keys = {
        "required": "podset-required-topology",
        "preferred": "podset-preferred-topology",
        "unconstrained": "podset-unconstrained-topology",
        "slice": "podset-slice-required-topology",
        "size": "podset-slice-size",
        "slices": "podset-slice-required-topology-constraints",
        "group": "podset-group-name",
    }
    notes = {f"{KUEUE}/{keys[key]}": value for key, value in annotations.items()}
    results = {"name": "main", "count": count, "template": {"metadata": {"annotations": notes}}}
    return results if request is None else {**results, "topologyRequest": request}


def with_request(**request):
    return pod_set(request=request)


def slices(*pairs):
    return json.dumps([{"topology": level, "size": size} for level, size in pairs])


# --- topologies


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1beta2"])
def test_levels_are_layers_and_the_hostname_is_the_node(version):
    read = read_topology(topology(BLOCK, RACK, HOST, version=version), NODES)
    assert (read.name, read.levels) == ("default", (BLOCK, RACK, HOST))
    assert read.network.layers == (BLOCK, RACK)
    assert read.network.domain("n5") == ("b1", "r0", "n5")
    assert read.values["n5"] == ("b1", "r0", "host-5")
    assert (read.layer(HOST), read.layer(RACK)) == ("node", RACK)


def test_racks_called_alike_in_two_blocks_are_two():
    network = read_topology(topology(BLOCK, RACK), NODES).network
    network.set_slots([1] * 8)
    assert not network.fits(TopologyRequest("four", 4, must=RACK))
    assert network.fits(TopologyRequest("two", 2, must=RACK))


def test_only_nodes_with_the_labels_of_the_flavor_and_of_all_levels_are_in():
    others = [
        node("other", block="b1", rack="r1", host="h", pool="cpu"),
        node("no-rack", block="b1", host="i", pool="tas"),
        node("empty", block="b1", rack="", host="j", pool="tas"),
        {"kind": "Pod", "metadata": {"name": "n0"}},
    ]
    read = read_topology(topology(BLOCK, RACK, HOST), NODES + others, flavor=flavor(pool="tas"))
    assert read.network.nodes == tuple(f"n{i}" for i in range(8))
    assert read.flavor_labels == {"pool": "tas"}
    wider = read_topology(topology(BLOCK), NODES + others)
    assert set(wider.network.nodes) >= {"other", "no-rack", "empty"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"spec": {"levels": []}}, "Topology 'default': spec.levels: must be 1 to 16 levels"),
        ({"spec": {"levels": [{"nodeLabel": "a"}] * 2}}, "spec.levels[1].nodeLabel: 'a' is there"),
        (
            {"spec": topology(HOST, "a")["spec"]},
            "[1].nodeLabel: kubernetes.io/hostname must be the",
        ),
        ({"spec": {"levels": [{}]}}, "spec.levels[0].nodeLabel: is missing"),
        ({"spec": {"levels": [{"nodeLabel": f"l{i}"} for i in range(17)]}}, "not 17"),
        ({"apiVersion": f"{KUEUE}/v2"}, "apiVersion: must be one of"),
        ({"kind": "Node"}, "kind: must be 'Topology', not 'Node'"),
        ({"metadata": {}}, "Topology: metadata.name: is missing"),
        ({"spec": {"levels": [{"nodeLabel": "a"}], "level": 1}}, "spec.level: is unknown, is lev"),
        ({"spec": {"levels": [{"nodeLabel": "a", "name": 1}]}}, "spec.levels[0].name: is unknown"),
    ],
)
def test_a_wrong_topology_is_refused_with_its_path(change, says):
    with pytest.raises(ValueError, match="Topology") as error:
        read_topology({**topology(RACK), **change}, NODES)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("given", "nodes", "says"),
    [
        (flavor("other", pool="tas"), NODES, "spec.topologyName: must be 'default', not 'other'"),
        (flavor(), NODES, "spec.nodeLabels: a flavor with a topology needs a label"),
        (flavor(pool="none"), NODES, "nodes: none has the labels"),
        (
            {**flavor(), "spec": {"nodeLabel": {}, "topologyName": "default"}},
            NODES,
            "spec.nodeLabel: is unknown, is nodeLabels",
        ),
        (None, [], "nodes: none has the labels"),
        (None, NODES[:1] * 2, "Node 'n0': nodes[1].metadata.name: there are two nodes of this"),
        (
            *(None, [node(name, block="b", rack="r", host="h") for name in "ab"]),
            "nodes: 'a' and 'b' have one label kubernetes.io/hostname",
        ),
    ],
)
def test_wrong_nodes_and_flavors_are_refused(given, nodes, says):
    with pytest.raises(ValueError, match=r"Flavor|odes") as error:
        read_topology(topology(BLOCK, RACK, HOST), nodes, flavor=given)
    assert says in str(error.value)


@pytest.mark.parametrize("key", ["nodeTaints", "tolerations"])
def test_what_a_flavor_says_of_its_pods_is_a_warning(key):
    given = flavor(pool="tas")
    given["spec"][key] = []
    assert read_topology(topology(RACK), NODES, flavor=given).flavor_labels == {"pool": "tas"}
    given["spec"][key] = [{"key": "gpu", "effect": "NoSchedule"}]
    with pytest.warns(UserWarning, match=f"ResourceFlavor 'tas': spec.{key}: is not read"):
        read_topology(topology(RACK), NODES, flavor=given)


# --- pod sets

CONSTRAINTS, RACK_OF_4 = "podsetSliceRequiredTopologyConstraints", {"topology": RACK, "size": 4}


@pytest.mark.parametrize(
    ("pods", "wishes"),
    [
        (pod_set(), ("", "", ())),
        (pod_set(unconstrained="true"), ("", "", ())),
        (pod_set(required=RACK), (RACK, "", ())),
        (pod_set(preferred=BLOCK), ("", BLOCK, ())),
        (pod_set(required=HOST), ("node", "", ())),
        (pod_set(slice=RACK, size="4"), ("", "", ((RACK, 4),))),
        (pod_set(required=BLOCK, slice=BLOCK, size="2"), (BLOCK, "", ((BLOCK, 2),))),
        (
            pod_set(required=BLOCK, slices=slices((RACK, 4), (HOST, "2"))),
            (BLOCK, "", ((RACK, 4), ("node", 2))),
        ),
        (pod_set(request={"required": RACK}, preferred=BLOCK), (RACK, "", ())),
        (with_request(podSetSliceRequiredTopology=RACK, podSetSliceSize=4), ("", "", ((RACK, 4),))),
        (with_request(preferred=BLOCK, **{CONSTRAINTS: [RACK_OF_4]}), ("", BLOCK, ((RACK, 4),))),
    ],
)
def test_annotations_and_requests_are_wishes(pods, wishes):
    read = read_topology(topology(BLOCK, RACK, HOST), NODES)
    request = read_pod_set(pods, read, name="train")
    assert (request.must, request.prefer, request.multiple) == wishes
    assert (request.name, request.pods, request.amounts) == ("train", 8, (("slots", 1),))
    read.network.set_slots([8] * 8)
    assert read.network.fits(request)


def test_a_pod_set_of_no_pods_asks_for_nothing():
    read = read_topology(topology(BLOCK, RACK, HOST), NODES)
    for pods in (
        pod_set(count=0),
        pod_set(count=0, required=RACK, slice=HOST, size="2"),
        pod_set(count=0, request={"required": RACK, "podSetGroupName": "g"}),
    ):
        assert read_pod_set(pods, read, name="none") is None
    with pytest.raises(ValueError, match="'zone' is none of the levels"):
        read_pod_set(pod_set(count=0, required="zone"), read, name="none")


def test_what_says_which_pod_has_which_rank_changes_no_request():
    read = read_topology(topology(BLOCK, RACK, HOST), NODES)
    ranks = {"podIndexLabel": "a/index", "subGroupIndexLabel": "a/job", "subGroupCount": 2}
    pods = {**pod_set(request={"required": RACK, **ranks}), "minCount": 4}
    plain = read_pod_set(pod_set(required=RACK), read, name="x")
    assert read_pod_set(pods, read, name="x") == plain


def test_a_pod_set_without_a_count_is_one_pod_and_amounts_are_taken_over():
    read = read_topology(topology(RACK), NODES)
    request = read_pod_set({}, read, name="one", amounts={"gpu": 8})
    assert (request.pods, request.amounts) == (1, (("gpu", 8),))


NOTES = f"template.metadata.annotations['{KUEUE}/podset-"


def noted(place, key):
    return {"template": {"metadata": {place: {f"{KUEUE}/podset-{key}": RACK}}}}


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        (pod_set(count=-1), "count=-1: allowed are 0"),
        (pod_set(required="zone"), f"{NOTES}required-topology']: 'zone' is none of the levels"),
        (pod_set(preferred="zone"), f"{NOTES}preferred-topology']: 'zone' is none of"),
        (pod_set(required=RACK, preferred=RACK), "only one of required, preferred and"),
        (pod_set(required=RACK, unconstrained="true"), "only one of required, preferred and"),
        (pod_set(unconstrained="perhaps"), "must be one of true, false, not 'perhaps'"),
        (
            pod_set(group="g", required=RACK),
            f"{NOTES}group-name']: is 'g': the pod sets of a group",
        ),
        (with_request(podSetGroupName="g"), "topologyRequest.podSetGroupName: is 'g': the"),
        (pod_set(request={"required": RACK}, group="g"), f"{NOTES}group-name']: is 'g'"),
        (with_request(requires=RACK), "topologyRequest.requires: is unknown, is required m"),
        (
            with_request(**{CONSTRAINTS: [{"level": RACK}]}),
            "Constraints[0].level: is unknown, known are top",
        ),
        ({**pod_set(), "counts": 3}, "counts: is unknown, is count meant?"),
        (noted("annotations", "required"), f"{NOTES}required']: is unknown, known are"),
        (noted("labels", "required-topology"), "template.metadata.labels"),
        (
            {"kind": "Workload", "spec": {"podSets": [pod_set()]}},
            "spec: this is a Workload: give an entry of its podSets",
        ),
        ({"podSets": [pod_set()]}, "this is a Workload"),
        ({"kind": "Pod", "metadata": {}, "spec": {"containers": []}}, "kind: is unknown"),
        (pod_set(size="4"), "slice-size']: there is no level that it is for"),
        (pod_set(slice=RACK), "slice-size']: is missing"),
        (pod_set(slice=RACK, size="0"), "slice-size']=0: allowed are 1"),
        (pod_set(slice=RACK, size="3"), "slice-size']: 8 pods are no multiple of 3"),
        (pod_set(required=RACK, slice=BLOCK, size="4"), f"'{BLOCK}' is not below the level"),
        (pod_set(preferred=RACK, slice=BLOCK, size="4"), f"'{BLOCK}' is not below the level"),
        (pod_set(slices="{"), "is no JSON"),
        (pod_set(slices="[{}]"), "[0].topology: is missing"),
        (pod_set(slices=slices((RACK, 4), (RACK, 4))), f"[1].topology: '{RACK}' is not below the"),
        (pod_set(slices=slices((RACK, 4), (HOST, 3))), "[1].size: 4 pods are no multiple of 3"),
        (pod_set(slices=slices((RACK, 4)), slice=RACK, size="4"), "slices are given in two ways"),
    ],
)
def test_wrong_wishes_are_refused_with_their_path(pods, says):
    read = read_topology(topology(BLOCK, RACK, HOST), NODES)
    with pytest.raises(ValueError, match=r".") as error:
        read_pod_set(pods, read, name="train")
    assert says in str(error.value)


# --- assignments

#: The documented example, in all the ways to write it.
WANTED = TopologyAssignment((BLOCK, RACK), ((("block-1", "rack-1"), 4), (("block-1", "rack-2"), 2)))


def sliced(*parts):
    return {"levels": [BLOCK, RACK], "slices": list(parts)}


def part(count, *columns, **counts):
    return {"domainCount": count, "valuesPerLevel": list(columns), **counts}


ONE_BLOCK = {"universalValue": "block-1"}
WRITTEN = [
    {
        "levels": [BLOCK, RACK],
        "domains": [
            {"values": ["block-1", f"rack-{i}"], "count": count} for i, count in ((1, 4), (2, 2))
        ],
    },
    sliced(part(2, {"roots": ["block-1"] * 2}, {"roots": ["rack-1", "rack-2"]}, podCounts=[4, 2])),
    sliced(part(2, ONE_BLOCK, {"prefix": "rack-", "roots": ["1", "2"]}, podCounts=[4, 2])),
    sliced(
        *(
            part(1, ONE_BLOCK, {"universalValue": f"rack-{i}"}, universalPodCount=count)
            for i, count in ((1, 4), (2, 2))
        )
    ),
]


@pytest.mark.parametrize("written", WRITTEN)
def test_all_ways_to_write_an_assignment_are_read(written):
    assert read_assignment(written) == WANTED


def test_an_assignment_is_written_as_a_list_or_with_what_is_common_taken_out():
    assert write_assignment(WANTED, version="v1beta1") == WRITTEN[0]
    assert write_assignment(WANTED) == write_assignment(WANTED, version="v1beta2") == WRITTEN[2]


def expanded(written):
    """The domains of a v1beta2 assignment, as its definition says, in another way."""
    for part in written["slices"]:
        for i in range(part["domainCount"]):
            values = [
                entry["universalValue"]
                if "universalValue" in entry
                else entry.get("prefix", "") + entry["roots"][i] + entry.get("suffix", "")
                for entry in part["valuesPerLevel"]
            ]
            counts = part.get("podCounts")
            yield tuple(values), counts[i] if counts else part["universalPodCount"]


VALUE = st.text(alphabet="ab-1", max_size=6)


@given(
    st.integers(1, 3).flatmap(
        lambda width: st.tuples(
            st.just(tuple(f"l{i}" for i in range(width))),
            st.dictionaries(
                st.tuples(*[VALUE] * width), st.integers(1, 3), min_size=1, max_size=8
            ).map(lambda result: tuple(result.items())),
        )
    )
)
@examples(300)
def test_any_assignment_comes_back_and_keeps_the_rules_of_the_api(pair):
    assignment = TopologyAssignment(*pair)
    for version in ("v1beta1", "v1beta2"):
        written = write_assignment(assignment, version=version)
        assert read_assignment(json.loads(json.dumps(written))) == assignment
    assert tuple(expanded(written)) == assignment.domains
    for part in written["slices"]:
        assert ("podCounts" in part) != ("universalPodCount" in part)
        for column in part["valuesPerLevel"]:
            assert ("roots" in column) != ("universalValue" in column)
            assert "roots" not in column or len(column["roots"]) == part["domainCount"]


def test_more_domains_than_a_slice_holds_are_in_several():
    domains = tuple(((f"h{i}",), 1) for i in range(100_001))
    written = write_assignment(TopologyAssignment((HOST,), domains))
    assert [part["domainCount"] for part in written["slices"]] == [100_000, 1]
    assert read_assignment(written).domains == domains


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"domainCount": 3}, "slices[0].valuesPerLevel[1].roots: 2 roots are not those of 3"),
        ({"domainCount": 0}, "slices[0].domainCount=0"),
        ({"podCounts": [4]}, "slices[0].podCounts: 1 counts are not those of 2 domains"),
        ({"podCounts": [4, 0]}, "slices[0].podCounts[1]=0"),
        ({"podCount": [4, 2]}, "slices[0].podCount: is unknown, is podCounts meant?"),
        ({"valuesPerLevel": [{"roots": [*"ab"], "individual": 1}] * 2}, "[0].individual: is unkn"),
        ({"universalPodCount": 1}, "slices[0]: must have podCounts or universalPodCount"),
        ({"podCounts": None}, "slices[0]: must have podCounts or universalPodCount"),
        ({"valuesPerLevel": [{}]}, "slices[0].valuesPerLevel: 1 entries are not those of 2 levels"),
        ({"valuesPerLevel": [{}, {"roots": ["a", "b"]}]}, "valuesPerLevel[0]: must have roots or"),
        (
            {"valuesPerLevel": [{"universalValue": "a", "prefix": "b"}, {"roots": ["a", "b"]}]},
            "valuesPerLevel[0]: a universalValue has neither",
        ),
        ({"valuesPerLevel": [{"universalValue": "a"}] * 2}, "its 2 domains are one and the same"),
        ({"valuesPerLevel": [{"roots": ["a", "a"]}] * 2}, "a domain is there twice"),
    ],
)
def test_a_wrong_assignment_is_refused_with_its_path(change, says):
    part = {**WRITTEN[2]["slices"][0], **change}
    with pytest.raises(ValueError, match=r".") as error:
        read_assignment({**WRITTEN[2], "slices": [part]})
    assert says in str(error.value)


def test_an_assignment_has_domains_or_slices():
    for wrong in ({"levels": ["a"]}, {**WRITTEN[0], **WRITTEN[1]}):
        with pytest.raises(ValueError, match="must have domains or slices"):
            read_assignment(wrong)
    with pytest.raises(ValueError, match="levels: there is none"):
        read_assignment({"levels": []})
    with pytest.raises(ValueError, match="1 values are not those of 2 levels"):
        read_assignment({"levels": ["a", "b"], "domains": [{"values": ["c"], "count": 1}]})


@given(st.sampled_from(WRITTEN).flatmap(broken))
@examples(300)
def test_whatever_is_in_it_an_assignment_is_read_or_refused(written):
    with refused_clearly():
        read_assignment(written)


@given(
    broken([topology(BLOCK, RACK, HOST), NODES[:2], flavor(pool="tas"), pod_set(required=BLOCK)])
)
@examples(300)
def test_whatever_is_in_them_objects_are_read_or_refused(objects):
    if not isinstance(objects, list) or len(objects) < 4:
        return
    with refused_clearly():
        read = read_topology(objects[0], objects[1], flavor=objects[2])
        read_pod_set(objects[3], read, name="train")


# --- a user's run


def test_a_pod_set_is_placed_and_written_as_assignment_and_selectors():
    read = read_topology(topology(BLOCK, RACK, HOST), NODES, flavor=flavor(pool="tas"))
    read.network.set_slots([1, 1, 2, 0, 2, 2, 2, 2])
    request = read_pod_set(pod_set(6, required=BLOCK, slice=RACK, size="2"), read, name="train")
    decision = read.network.schedule(request)
    decision.verify(read.network)
    assignment = topology_assignment(read, decision)
    assert assignment.levels == (HOST,)
    assert assignment.domains == ((("host-4",), 2), (("host-5",), 2), (("host-6",), 2))
    (part,) = write_assignment(assignment)["slices"]
    assert part == {
        "domainCount": 3,
        "valuesPerLevel": [{"prefix": "host-", "roots": ["4", "5", "6"]}],
        "universalPodCount": 2,
    }
    selectors = assignment.selectors(read.flavor_labels)
    assert selectors[0] == {"pool": "tas", HOST: "host-4"}
    assert len(selectors) == 6


def test_without_hostnames_pods_are_assigned_to_the_lowest_level():
    read = read_topology(topology(BLOCK, RACK), NODES)
    read.network.set_slots([1] * 8)
    decision = read.network.schedule(read_pod_set(pod_set(3, preferred=RACK), read, name="train"))
    assert decision.layer == BLOCK
    assignment = topology_assignment(read, decision)
    assert assignment.domains == ((("b0", "r0"), 2), (("b0", "r1"), 1))
    with pytest.raises(ValueError, match="must be 'bind', not 'wait'"):
        topology_assignment(read, read.network.schedule(TopologyRequest("huge", 9)))
    fewer = read_topology(topology(BLOCK, RACK), NODES[4:])
    with pytest.raises(ValueError, match="node 'n0' is not in the topology"):
        topology_assignment(fewer, decision)
