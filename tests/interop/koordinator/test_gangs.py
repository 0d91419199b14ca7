"""Gangs as Koordinator's pods and PodGroups define them, and what is written on them."""

import json
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.hostile import broken
from profiles import examples

from hivecore.gangs import BindInfo, Coscheduler, GangSpec
from hivecore.interop.koordinator import (
    bind_annotations,
    pod_group_status,
    read_gang_pod,
    read_pod_group,
)
from hivecore.interop.koordinator.gangs.durations import read_duration

G = "gang.scheduling.koordinator.sh"
LABEL = "pod-group.scheduling.sigs.k8s.io"


def pod(annotations=None, labels=None, **metadata):
    given = {f"{G}/{key}": value for key, value in (annotations or {}).items()}
    return {
        "metadata": {
            "name": "p",
            "namespace": "ai",
            "annotations": given,
            "labels": labels or {},
            **metadata,
        }
    }


def spec_of(**annotations):
    given = {key.replace("_", "-"): value for key, value in annotations.items()}
    return read_gang_pod(pod({"name": "g", "min-available": "2", **given})).spec


# --- names


def test_the_name_is_that_of_the_pod_group_then_the_older_label_then_the_annotation():
    labels = {LABEL: "one", f"{LABEL}/name": "two"}
    named = {"name": "three"}
    assert read_gang_pod(pod(named, labels)).gang == "ai/one"
    del labels[LABEL]
    assert read_gang_pod(pod(named, labels)).gang == "ai/two"
    assert read_gang_pod(pod(named)).gang == "ai/three"
    assert read_gang_pod(pod()) is None
    assert read_gang_pod({"metadata": {"name": "p"}}) is None


def test_the_label_of_either_api_names_a_pod_group():
    label = "scheduling.x-k8s.io/pod-group"
    member = read_gang_pod(pod({"name": "three", "min-available": "2"}, {label: "one"}))
    assert (member.gang, member.spec) == ("ai/one", None)
    assert read_gang_pod(pod(labels={label: "one", LABEL: "one"})).gang == "ai/one"
    with pytest.raises(ValueError, match=r"pod-group'\]: is 'two', and pod-group.sched.* is 'one'"):
        read_gang_pod(pod(labels={label: "two", LABEL: "one"}))


def test_kubernetes_names_a_pod_group_or_the_group_of_a_workload():
    group = {"schedulingGroup": {"podGroupName": "one"}}
    member = read_gang_pod({**pod({"name": "three", "min-available": "2"}), "spec": group})
    assert (member.gang, member.spec) == ("ai/one", None)
    with pytest.raises(ValueError, match=r"podGroupName: is 'one', and pod-group.sched.* is 'two'"):
        read_gang_pod({**pod(labels={LABEL: "two"}), "spec": group})
    workload = {"name": "w", "podGroup": "workers"}
    assert read_gang_pod({**pod(), "spec": {"workloadRef": workload}}).gang == "ai/w/workers"
    workload["podGroupReplicaKey"] = "7"
    assert read_gang_pod({**pod(), "spec": {"workloadRef": workload}}).gang == "ai/w/workers/7"


LWS, JOBSET, RAY = "leaderworkerset.sigs.k8s.io", "jobset.sigs.k8s.io", "ray.io"
TRAINING = "training.kubeflow.org"
WORKLOADS = {
    "jobset:train": {f"{JOBSET}/jobset-name": "train", f"{JOBSET}/replicatedjob-name": "node"},
    "training:train": {f"{TRAINING}/job-name": "train", f"{TRAINING}/replica-type": "master"},
    "raycluster:train": {f"{RAY}/cluster": "train", f"{RAY}/group": "gpus"},
}


@pytest.mark.parametrize("gang", WORKLOADS)
def test_the_labels_of_a_workload_name_its_gang_where_its_minimum_is_known(gang):
    labels = WORKLOADS[gang]
    assert read_gang_pod(pod(labels=labels), strict=True) is None
    for member in (
        read_gang_pod(pod({"min-available": "3"}, labels), strict=True),
        read_gang_pod(pod(labels={**labels, f"{LABEL}/min-available": "3"}), strict=True),
    ):
        assert (member.gang, member.spec.min_members) == (f"ai/{gang}", 3)
    assert read_gang_pod(pod(labels={**labels, LABEL: "group"})).gang == "ai/group"
    named = pod({"name": "own", "min-available": "2"}, labels)
    assert read_gang_pod(named, strict=True).gang == "ai/own"


def test_a_group_of_a_leader_and_workers_says_its_size_itself():
    labels = {f"{LWS}/name": "llm", f"{LWS}/group-index": "4", f"{LWS}/worker-index": "0"}
    each = pod(labels=labels)
    assert read_gang_pod(each) is None
    each["metadata"]["annotations"][f"{LWS}/size"] = "8"
    member = read_gang_pod(each, strict=True)
    assert (member.gang, member.spec.min_members) == ("ai/leaderworkerset:llm-4", 8)
    each["metadata"]["annotations"][f"{G}/min-available"] = "1"
    assert read_gang_pod(each, strict=True).spec.min_members == 1
    del each["metadata"]["annotations"][f"{G}/min-available"], labels[f"{LWS}/group-index"]
    assert read_gang_pod(each, strict=True) is None
    labels[f"{LWS}/group-index"] = "4"
    each["metadata"]["annotations"][f"{LWS}/size"] = "many"
    assert read_gang_pod(each) is None
    with pytest.raises(ValueError, match=r"size'\]: must be an integer from 0 to .*, not 'many'"):
        read_gang_pod(each, strict=True)


def test_the_older_label_has_its_own_minimum():
    labels = {f"{LABEL}/name": "g", f"{LABEL}/min-available": "3"}
    assert read_gang_pod(pod({"min-available": "2"}, labels)).spec.min_members == 3
    del labels[f"{LABEL}/min-available"]
    assert read_gang_pod(pod({"min-available": "2"}, labels)).spec.min_members == 2


# --- fields with their defaults, and bad input


def test_the_defaults():
    defaults = {"mode": "strict", "match_policy": "once-satisfied", "groups": ("ai/g",)}
    assert spec_of() == GangSpec("ai/g", 2, 2) == GangSpec("ai/g", 2, 2, wait_time=600, **defaults)


@pytest.mark.parametrize("text", ["", "two", "2.0", "1e3", "-1", str(2**31), "9" * 30, " 2"])
def test_a_minimum_that_cannot_be_read_defines_nothing(text):
    assert read_gang_pod(pod({"name": "g", "min-available": text})).spec is None
    assert read_gang_pod(pod({"name": "g"})).spec is None


FIELDS = {
    ("total_number", "total"): {"5": 5, "+5": 5, "1": 2, "many": 2, "": 2},
    ("mode", "mode"): {"NonStrict": "non-strict"}
    | dict.fromkeys(["Strict", "nonstrict", "x"], "strict"),
    ("match_policy", "match_policy"): {
        name: name for name in ("only-waiting", "waiting-and-running", "once-satisfied")
    }
    | dict.fromkeys(["x", ""], "once-satisfied"),
    ("waiting_time", "wait_time"): {"30s": 30, "1h2m3s": 3723, "1.5s": 2, "1ms": 1}
    | dict.fromkeys(["0s", "0", "-5m", "300", "ten", "", "99999999h"], 600),
    ("groups", "groups"): {'["ai/g", "ai/ps"]': ("ai/g", "ai/ps"), '["ai/ps"]': ("ai/g", "ai/ps")}
    | dict.fromkeys(
        ["[]", '["ai/ps"', '{"a": 1}', '["ai/ps", 3]', "null", "[" * 10_000], ("ai/g",)
    ),
}


@pytest.mark.parametrize(("key", "field"), FIELDS)
def test_texts_that_cannot_be_read_mean_the_default(key, field):
    for text, value in FIELDS[key, field].items():
        assert getattr(spec_of(**{key: text}), field) == value, text


def test_the_match_policy_has_another_name():
    each = pod({"name": "g", "min-available": "1"})
    each["metadata"]["annotations"][f"{LABEL}/match-policy"] = "only-waiting"
    assert read_gang_pod(each).spec.match_policy == "only-waiting"
    each["metadata"]["annotations"][f"{G}/match-policy"] = "waiting-and-running"
    assert read_gang_pod(each).spec.match_policy == "waiting-and-running"


def test_time_has_the_caller_s_unit():
    each = pod({"name": "g", "min-available": "1", "waiting-time": "1500us"})
    assert read_gang_pod(each, per_second=1_000_000).spec.wait_time == 1500
    assert (
        read_gang_pod(pod({"name": "g", "min-available": "1"}), default_wait_time=7).spec.wait_time
        == 7
    )


def test_durations_are_those_of_go():
    assert read_duration("1h15m30.918273645s") == Fraction("4530.918273645")
    assert read_duration(".5m") == read_duration("30.s") == 30
    assert read_duration("-.5s") == Fraction(-1, 2)
    assert read_duration("1µs") == read_duration("1us") == read_duration("1000ns")
    wrongs = ["", "+", "1", ".", ".s", "1d", "s", "1 s", "1s 2", "1e3s", "1h-2m", "1" * 300 + "s"]
    for wrong in wrongs:
        assert read_duration(wrong) is None, wrong


# --- objects


def test_a_pod_group():
    record = {
        "kind": "PodGroup",
        "metadata": {
            "name": "g",
            "namespace": "ai",
            "annotations": {f"{G}/mode": "NonStrict", f"{G}/total-number": "9"},
        },
        "spec": {"minMember": 4, "scheduleTimeoutSeconds": 30},
    }
    assert read_pod_group(record) == GangSpec("ai/g", 4, 9, mode="non-strict", wait_time=30)
    for seconds in (0, -1, None):
        record["spec"]["scheduleTimeoutSeconds"] = seconds
        assert read_pod_group(record).wait_time == 600


@pytest.mark.parametrize(
    ("record", "kind", "says"),
    [
        ({"metadata": {"name": "g"}}, ValueError, "PodGroup 'g': spec.minMember: is missing"),
        ({"metadata": {"name": "g"}, "spec": {"minMember": -1}}, ValueError, "spec.minMember=-1"),
        ({"metadata": {"name": "g"}, "spec": {"minMember": "4"}}, TypeError, "must be an integer"),
        ({"spec": {"minMember": 4}}, ValueError, "PodGroup: metadata.name: is missing"),
        (3, TypeError, "record must be a mapping"),
        (
            {"apiVersion": "scheduling.volcano.sh/v1beta1", "metadata": {"name": "g"}},
            ValueError,
            "apiVersion: must be one of scheduling.sigs.k8s.io/v1alpha1, scheduling.x-k8s.io/v1",
        ),
        (
            {"metadata": {"name": "g"}, "spec": {"minMember": 1, "minMembers": 2}},
            ValueError,
            "spec.minMembers: is unknown, is minMember meant",
        ),
    ],
)
def test_what_is_wrong_with_a_pod_group_is_named(record, kind, says):
    with pytest.raises(kind, match=says):
        read_pod_group(record)


def test_a_definition_keeps_the_rules_of_the_topology():
    rules = {"layer": "rack", "strategy": "MustGather", "podCountMultiple": 2}
    text = json.dumps({"gatherStrategy": [rules]})
    expected = GangSpec("ai/g", 2, must=["rack"], multiple={"rack": 2})
    assert spec_of(network_topology_spec=text) == expected
    notes = {f"{G}/network-topology-spec": text}
    metadata = {"name": "g", "namespace": "ai", "annotations": notes}
    spec = read_pod_group({"metadata": metadata, "spec": {"minMember": 2}})
    assert spec == expected
    gangs = Coscheduler()
    gangs.define_gang(spec, 0)
    assert Coscheduler.from_bytes(gangs.to_bytes()).to_bytes() == gangs.to_bytes()


def test_what_cannot_be_read_is_refused_where_no_default_is_wanted():
    record = {"metadata": {"name": "g", "annotations": {f"{G}/total-number": "many"}}}
    record["spec"] = {"minMember": 2}
    assert read_pod_group(record).total == 2
    with pytest.raises(ValueError, match="total-number'\\]: must be an integer from 2 to"):
        read_pod_group(record, strict=True)
    with pytest.raises(TypeError, match="strict"):
        read_pod_group(record, strict="yes")


@pytest.mark.parametrize(
    ("place", "key", "says"),
    [
        ("annotations", f"{G}/group", f"is unknown, is {G}/groups meant?"),
        ("labels", f"{G}/modes", f"is unknown, is {G}/mode meant?"),
        ("annotations", "scheduling.koordinator.sh/network-topology-spec", "is unknown, is gang"),
        ("labels", f"{G}/groups", "is read as an annotation only"),
    ],
)
def test_a_key_of_a_pod_group_that_would_be_lost_is_named(place, key, says):
    record = {"metadata": {"name": "g", place: {key: '["a/b"]'}}, "spec": {"minMember": 2}}
    with pytest.raises(ValueError, match=re.escape(f"metadata.{place}[{key!r}]: {says}")):
        read_pod_group(record, strict=True)
    assert read_pod_group(record).groups == ("default/g",)


@pytest.mark.parametrize("key", [f"{G}/timeout", f"{G}/min-available", "example.com/mode"])
def test_other_keys_of_a_pod_group_say_nothing(key):
    record = {"metadata": {"name": "g", "annotations": {key: "3"}}, "spec": {"minMember": 2}}
    assert read_pod_group(record, strict=True) == read_pod_group(record)


def test_options_are_checked():
    for options in ({"per_second": 0}, {"default_wait_time": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            read_gang_pod(pod({"name": "g"}), **options)
        with pytest.raises(ValueError, match=next(iter(options))):
            read_pod_group({"metadata": {"name": "g"}, "spec": {"minMember": 1}}, **options)


def test_pods_and_objects_drive_a_coscheduler():
    gangs = Coscheduler()
    gangs.define_gang(read_pod_group({"metadata": {"name": "g"}, "spec": {"minMember": 2}}), 0)
    for i in range(2):
        pod_ = read_gang_pod({"metadata": {"name": f"p{i}", "labels": {LABEL: "g"}}})
        actions = gangs.create_pod(pod_.name, pod_.spec or pod_.gang, 0, bound=bool(pod_.node))
    assert [action.kind for action in actions] == ["try", "hold"]
    for i in range(2):
        gangs.assume_pod(f"default/p{i}", 1)
    written = bind_annotations(gangs.bind_info("default/p0"))
    assert written == {
        "internal.scheduling.koordinator.sh/bind-gang-group-id": "default/g",
        "internal.scheduling.koordinator.sh/bind-gang-member-count": "2",
    }
    gangs.bind_pod("default/p0", 2)
    assert pod_group_status(gangs.gang("default/g"))["status"]["phase"] == "Scheduling"


def test_what_is_written_is_checked():
    with pytest.raises(TypeError, match="info must be a BindInfo"):
        bind_annotations(("g", 2))
    with pytest.raises(TypeError, match="status must be a GangStatus"):
        pod_group_status(BindInfo("g", 2))


RICH = pod(
    {
        "name": "g",
        "min-available": "2",
        "total-number": "3",
        "mode": "NonStrict",
        "waiting-time": "10m",
        "groups": '["ai/g"]',
    },
    {f"{LABEL}/name": "h"},
)


@given(broken(RICH))
@examples(300)
def test_hostile_pods_are_read_or_refused_and_nothing_else(document):
    try:
        pod_ = read_gang_pod(document)
    except (TypeError, ValueError) as error:
        assert "\n" not in str(error)
    else:
        if pod_ is not None:
            assert Coscheduler().create_pod(pod_.name, pod_.spec or pod_.gang, 0)


@given(st.text(max_size=20))
@examples(300)
def test_any_text_is_a_duration_or_not(text):
    result = read_duration(text)
    assert result is None or isinstance(result, Fraction)
