"""What kube-scheduler sends to the extenders: HiveD's, gpushare's, and a scheduler's for pods."""

import json
import re
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.extender.pods_and_kubelets import hived_pod, koordinator_pod
from interop.gpushare.objects import cards_of
from interop.gpushare.objects import pod as gpushare_pod
from interop.hived.clusters import NOTHING, config, kubernetes_pod, rack
from interop.hostile import broken
from msgspec import to_builtins
from profiles import examples
from scheduler.lives import COMPOSITIONS, make_scheduler

from hivecore.devices import DeviceCluster
from hivecore.interop.events.rounds import take
from hivecore.interop.extender.extender import PodExtender
from hivecore.interop.gpushare import Extender as GpushareExtender
from hivecore.interop.hived import Extender as HivedExtender
from hivecore.interop.hived import HivedScheduler
from hivecore.interop.kubernetes.calls import BadCall

TREE = {"NODE": (4, "GPU"), "RACK": (2, "NODE")}
CONFIG = config(TREE, [rack("n1", "n2")], {"A": {"RACK.NODE": 1}})


class Hived:
    """HiveD's extender; mistakes are answered with status 200."""

    root, verbs = "/v1/extender/", ("filter", "bind", "preempt")
    pod = kubernetes_pod("p")

    def __init__(self):
        self.extender = HivedExtender(HivedScheduler(CONFIG))

    def subject(self):
        return self.extender.scheduler

    def state(self):
        return self.subject().to_bytes()

    def ask(self, path, body):
        return self.extender.handle(path, body)

    def refused(self, verb, body):
        status, answer = self.ask(self.root + verb, body)
        assert (status, answer) == (200, NOTHING[verb] | {"Error": answer["Error"]})
        return answer["Error"]


class Gpushare(Hived):
    root, verbs = "/gpushare-scheduler/", ("filter", "bind")
    pod = gpushare_pod("p", 2)

    def __init__(self):
        self.cluster = DeviceCluster({"n1": cards_of(8), "n2": cards_of(8)})
        self.extender = GpushareExtender(self.cluster, "MiB")

    def subject(self):
        return self.cluster


class Pods(Hived):
    """The pods of a scheduler; what no kube-scheduler sends is answered with status 400."""

    pod = koordinator_pod("p", "a", 1)

    def __init__(self):
        self.scheduler = make_scheduler(COMPOSITIONS["cells"])
        self.extender = PodExtender(self.scheduler, partial(take, self.scheduler, now=0.0))

    def subject(self):
        return self.scheduler

    def ask(self, path, body):
        try:
            return 200, self.extender.begin(path, body).answer
        except BadCall as error:
            return error.status, {"Error": str(error)}

    def refused(self, verb, body):
        status, answer = self.ask(self.root + verb, body)
        assert status == 400
        return answer["Error"]


ALL = pytest.mark.parametrize("kind", [Hived, Gpushare, Pods])
LONG = ",".join(f'"node-{number}"' for number in range(500))
NAMES_TWICE = f'{{"Pod":{{}},"NodeNames" :["n1"],"NodeNames":["n1",{LONG}]}}'.encode()
POD_TWICE = f'{{"Pod":{{"name":"a","name":"b"}},"NodeNames":["n1",{LONG}]}}'.encode()
BIND = {"PodName": "p", "PodNamespace": "x", "Node": "n1"}


@pytest.mark.parametrize(
    ("verb", "body", "says"),
    [
        ("filter", None, "the body must be an object, not nothing"),
        ("bind", [], "the body must be an object, not a list"),
        ("filter", b'{"Pod":{},"Pod":{}}', "an object has the key 'Pod' twice"),
        ("bind", b'{"Node":"n1","PodName":"p","Node" : "n2"}', "an object has the key 'Node' twic"),
        ("filter", b'{"Pod":{},"pod":{}}', "the body has both 'Pod' and 'pod'"),
        ("bind", b'{"Node":"n1","PodName":"p","node":"n2"}', "the body has both 'Node' and 'node'"),
        ("filter", NAMES_TWICE, "an object has the key 'NodeNames' twice"),
        ("filter", POD_TWICE, "an object has the key 'name' twice"),
        *(("filter", body, "the body is no JSON") for body in (b"", b"{", b"\xff", b"\xff\xfe")),
        ("filter", "[" * 100_000, "the body is no JSON"),
        ("filter", {}, "Pod is missing"),
        ("filter", {"Pod": None}, "Pod must be an object, not nothing"),
        ("filter", {"Pod": 3}, "Pod must be an object, not an integer"),
        ("filter", {"Pod": {}}, "metadata.name: is missing"),
        ("filter", {"Pod": {"metadata": 3}}, "metadata must be a mapping, not 3"),
        ("filter", {"Pod": {"metadata": {"name": 1}}}, "must be a string"),
        ("filter", {"Pod": {"metadata": {"name": "p", "uid": {}}}}, "metadata.uid"),
        ("filter", {"NodeNames": "n1"}, "NodeNames must be a list, not a string"),
        ("filter", {"NodeNames": [1]}, "NodeNames[0] must be a string, not an integer"),
        ("filter", {"Nodes": 1}, "Nodes must be an object, not an integer"),
        ("filter", {"Nodes": {"items": 1}}, "Nodes.items must be a list, not an integer"),
        ("filter", {"Nodes": {"items": [{}]}}, "names of Nodes.items must be a list of strings"),
        ("preempt", {"NodeNameToVictims": {1: {}}}, "key in NodeNameToVictims must be a string"),
        ("preempt", {"NodeNameToVictims": []}, "NodeNameToVictims must be an object, not a list"),
        ("preempt", {"NodeNameToMetaVictims": 1}, "NodeNameToMetaVictims must be an object, not"),
        ("bind", {}, "PodName is missing"),
        ("bind", BIND | {"PodName": ""}, "PodName: expected str of length >= 1"),
        ("bind", BIND | {"Node": 3}, "Node must be a string, not an integer"),
        ("bind", BIND | {"PodUID": 3}, "PodUID must be a string, not an integer"),
    ],
)
def test_what_no_kube_scheduler_sends_is_refused_and_changes_nothing(verb, body, says):
    for kind in (Hived, Gpushare, Pods):
        if verb in kind.verbs:
            subject, sent = kind(), body
            if isinstance(body, dict) and any(re.match("Node.", key) for key in body):
                sent = {"Pod": kind.pod, **body}
            before = subject.state()
            assert says in subject.refused(verb, sent)
            assert subject.state() == before


@ALL
def test_fields_are_read_in_any_case_and_nodes_are_answered_as_they_were_listed(kind):
    meta = kind.pod["metadata"]
    pod = {**kind.pod, "METADATA": {key.title(): meta[key] for key in meta}}
    del pod["metadata"]
    subject = kind()
    if kind is Pods:
        names, expected = ["n0"], ["n0"]
    else:
        names, expected = ["n1", "n2"], ["n1"] if kind is Hived else ["n1", "n2"]
    items = [{"metadata": {"name": name, "labels": {}}} for name in names]
    for listed in ({"nodenames": names}, {"NODES": {"Items": items}}):
        status, answer = subject.ask(f"{kind.root}filter", {"pod": pod, **listed})
        answer = to_builtins(answer)
        assert status == 200
        result = answer["NodeNames"] or [
            item["metadata"]["name"] for item in answer["Nodes"]["items"]
        ]
        assert result == expected
        assert (answer["NodeNames"] is None) == ("NODES" in listed)


@pytest.mark.parametrize("kind", [Hived, Pods])
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (3, "an event or a list of nodes or pods must be an object, not 3"),
        ({}, "type=nothing: allowed are ADDED"),
        ({"type": "GONE"}, "type='GONE': allowed are ADDED, MODIFIED, DELETED"),
        ({"type": "ADDED"}, "a pod or a node with metadata.name is needed"),
        ({"type": "ADDED", "object": {"metadata": {"name": "n1"}}}, "'n1': kind=nothing: 'Pod' or"),
        ({"type": "ADDED", "object": {"metadata": {"name": "n1"}, "kind": 3}}, "'n1': kind=3: "),
        ({"kind": "List", "items": [{"metadata": {"name": "n1"}}]}, "items[0]: object 'n1': kind="),
        ({"kind": "PodList", "items": 3}, "items must be a list, not 3"),
        ({"kind": "PodList", "items": [{"metadata": {"name": "a"}}, 2]}, "items[1]: "),
    ],
)
def test_events_that_make_no_sense_are_refused_and_change_nothing(kind, body, says):
    subject = kind()
    before = subject.state()
    status, answer = subject.ask("/v1/watch", body)
    assert status == 400
    assert says in answer["Error"]
    assert subject.state() == before


OF_HIVED = hived_pod("q", "a", 2, "g", [(1, 2)], 1, leafCellType="gpu", pinnedCellId="c")


@ALL
@given(data=st.data())
@examples(200)
def test_whatever_is_sent_the_answer_is_200_or_400(kind, data):
    subject = kind()
    watch = f"{kind.root}watch" if kind is Gpushare else "/v1/watch"
    pod = data.draw(st.sampled_from([{"kind": "Pod", **kind.pod}, OF_HIVED]))
    bound = {**pod, "spec": {**pod.get("spec", {}), "nodeName": "n1"}}
    nodes = [{"metadata": {"name": "n1"}}]
    config_map = {"kind": "ConfigMap", "metadata": {"name": "unhealthy-gpu-n1"}, "data": {}}
    requests = [
        *((kind.root + verb, {"Pod": pod, "NodeNames": ["n1"]}) for verb in kind.verbs),
        (f"{kind.root}filter", {"Pod": pod, "Nodes": {"items": nodes}}),
        (f"{kind.root}bind", BIND),
        (watch, {"type": "ADDED", "object": data.draw(st.sampled_from([pod, config_map]))}),
        (watch, {"kind": "PodList", "metadata": {}, "items": [bound]}),
        (watch, {"kind": "NodeList", "metadata": {}, "items": nodes}),
    ]
    path, body = data.draw(st.sampled_from(requests))
    status, answer = subject.ask(path, data.draw(broken(body) | st.text() | st.binary()))
    assert status in (200, 400)
    assert status == 200 or list(answer) == ["Error"]
    json.dumps(to_builtins(answer))
    subject.subject().check()
    assert subject.ask(f"{kind.root}filter", {"Pod": kind.pod, "NodeNames": ["n1"]})[0] == 200


@pytest.mark.parametrize("kind", [Hived, Gpushare])
def test_a_path_is_a_string_and_unknown_paths_are_not_found(kind):
    extender = kind().extender
    with pytest.raises(TypeError, match="path must be a string, not NoneType"):
        extender.handle(None)
    for path in ("", "/v1", kind.root, f"{kind.root}filter/", f"{kind.root}_watch", "/x"):
        status, answer = extender.handle(path, {})
        assert (status, answer) == (404, {"Error": f"nothing is at {path!r}"})
    assert extender.handle("/healthz") == (200, {"status": "ok"})
    assert all(extender.method(path) for path in extender.handle("/")[1]["paths"])
