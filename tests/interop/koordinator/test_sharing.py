"""How GPUs may be shared, out of Koordinator's configuration, and templates in its annotations."""

import json
import sys

import pytest
from devices.sharing.share_cases import ASCEND, templates_of
from hypothesis import given
from hypothesis import strategies as st
from interop.hostile import broken, refused_clearly
from interop.koordinator.objects import ALLOCATED, pod, record
from profiles import examples

from hivecore.devices import DeviceCluster, ShareTemplates
from hivecore.interop.koordinator import (
    GpuSharing,
    read_allocation,
    read_bound_pod,
    read_designated,
    read_device_record,
    read_gpu_sharing,
    read_pod,
    write_allocation,
)

pytest.importorskip("yaml")

GPU, NPU = "koordinator.sh/gpu", "huawei.com/npu"
NAMES = {
    "memory": f"{GPU}-memory",
    "npu_core": f"{NPU}-core",
    "npu_cpu": f"{NPU}-cpu",
    "npu_dvpp": f"{NPU}-dvpp",
}
ASCEND_310P = {
    name: {NAMES[key]: str(amount) for key, amount in row.items()} for name, row in ASCEND.items()
}
LABELS = {
    f"node.koordinator.sh/gpu-{key}": value
    for key, value in (("vendor", "huawei"), ("model", "Ascend-310P"))
}
DUO = {"vendor": "huawei", "model": "Ascend-310P3-300I-DUO"}
UNSHAREABLE = {"gpuShareUnsupportedModels": [DUO]}


def config_map(rows, text=json.dumps):
    return {"kind": "ConfigMap", "data": {"data.yaml": text(rows)}}


def npu(minor):
    resources = {f"{NPU}-core": "8", f"{NPU}-cpu": "7", f"{NPU}-dvpp": "100"}
    resources |= {f"{GPU}-memory": "24Gi", f"{GPU}-memory-ratio": "100"}
    return {
        "type": "gpu",
        "minor": minor,
        "health": True,
        "id": f"NPU-{minor}",
        "resources": resources,
    }


MAP = config_map({"huawei-Ascend-310P": ASCEND_310P})


def share(**amounts):
    limits = {f"{GPU}.shared": 1, **{NAMES[key]: amount for key, amount in amounts.items()}}
    return read_pod(pod(limits))


def test_a_pod_gets_a_template_and_the_annotation_names_it():
    inventory = read_gpu_sharing(MAP).on(read_device_record(record(npu(0), labels=LABELS)))
    assert inventory.templates == templates_of(ASCEND)
    cluster = DeviceCluster({"n": inventory})
    decision = cluster.allocate(share(**ASCEND["vir02_1c"]), "n")
    text = write_allocation(decision.placement, inventory)
    (entry,) = json.loads(text)["gpu"]
    assert entry["extension"] == {"gpuSharedResourceTemplate": "vir02_1c"}
    assert entry["resources"][f"{GPU}-memory-ratio"] == "25"
    assert read_allocation(text)[0].template == "vir02_1c"
    bound = pod({}, {ALLOCATED: text}, nodeName="n")
    assert read_designated(bound) == decision.placement
    again = DeviceCluster({"n": inventory})
    again.recover(*read_bound_pod(bound))
    assert again.allocations("default/p") == decision.placement


def test_designated_devices_of_a_pod_are_given_with_their_template():
    inventory = read_gpu_sharing(MAP).on(read_device_record(record(npu(0), npu(1), labels=LABELS)))
    entry = {"minor": 1, "resources": ASCEND_310P["vir01"]}
    entry["extension"] = {"gpuSharedResourceTemplate": "vir01"}
    text = json.dumps({"gpu": [entry]})
    given = read_designated(pod({}, {ALLOCATED: text}))
    cluster = DeviceCluster({"n": inventory})
    decision = cluster.allocate(share(**ASCEND["vir01"]), "n", designated=given)
    assert decision.placement == given
    assert given[0].template == "vir01"


def test_yaml_is_read_as_well_as_json():
    text = f"huawei-Ascend-310P:\n  vir01:\n    {NPU}-core: 1\n    {GPU}-memory: 3Gi\n"
    sharing = read_gpu_sharing({"data": {"data.yaml": text}})
    templates = templates_of({"vir01": {"npu_core": 1, "memory": 3 << 30}})
    assert sharing == GpuSharing({"huawei-Ascend-310P": templates})


def test_a_node_of_another_model_has_no_template_and_one_without_configuration_any():
    inventory = read_device_record(record(npu(0), labels={**LABELS, f"{NPU}": "x"}))
    assert inventory.templates is None
    other = read_device_record(record(npu(0)))
    for config in (read_gpu_sharing(MAP), read_gpu_sharing(), read_gpu_sharing({"data": {}})):
        assert config.on(other).templates == ShareTemplates()
        assert config.on(other).shareable
    assert read_gpu_sharing().on(inventory).templates == ShareTemplates()


def test_models_are_found_by_vendor_and_model_joined():
    # As upstream: "a-b" with "c" is "a" with "b-c".
    sharing = read_gpu_sharing(config_map({"a-b-c": ASCEND_310P}))
    for vendor, model in (("a", "b-c"), ("a-b", "c")):
        labels = dict(zip(LABELS, (vendor, model), strict=True))
        assert sharing.on(read_device_record(record(labels=labels))).templates.templates


def test_models_that_are_not_shared_are_known_by_vendor_and_model():
    sharing = read_gpu_sharing(None, UNSHAREABLE | {"scoringStrategy": {}})
    for values, shareable in ((DUO.values(), False), (("", DUO["model"]), True), (("", ""), True)):
        labels = dict(zip(LABELS, values, strict=True))
        assert sharing.on(read_device_record(record(labels=labels))).shareable == shareable
    unnamed = read_gpu_sharing(None, {"gpuShareUnsupportedModels": [{}]})
    assert not unnamed.on(read_device_record(record())).shareable


@pytest.mark.parametrize(
    ("config", "matched"),
    [
        (None, ("npu_core",)),
        ({}, ()),
        (
            {"configMapName": "x", "matchedResources": [f"{NPU}-cpu", "cpu", f"{GPU}-core"]},
            ("core", "npu_cpu"),
        ),
    ],
)
def test_the_matched_resources_are_those_of_the_arguments_and_npu_cores_without_any(
    config, matched
):
    sharing = read_gpu_sharing(MAP, {"gpuSharedResourceTemplatesConfig": config})
    assert sharing.others.matched == matched
    assert sharing.templates["huawei-Ascend-310P"].matched == matched


def test_templates_that_no_request_can_equal_are_left_out():
    rows = {
        "zero": {f"{NPU}-core": 1, f"{NPU}-dvpp": 0},
        "cpu": {f"{NPU}-core": 1, "cpu": "500m"},
        "empty": {},
        "nothing": None,
        "one": {f"{NPU}-core": 1},
    }
    sharing = read_gpu_sharing(config_map({"v-m": rows, "v-n": None}))
    assert sharing.templates == {
        "v-m": templates_of({"one": {"npu_core": 1}}),
        "v-n": ShareTemplates(),
    }


def test_a_pod_that_no_model_has_a_template_for_is_known_before_any_node_is_asked():
    sharing = read_gpu_sharing(MAP)
    assert sharing.admits(share(**ASCEND["vir04"]))
    assert not sharing.admits(share(**ASCEND["vir04"] | {"npu_core": 5}))
    assert sharing.admits(read_pod(pod({f"{NPU}-core": 8, f"{GPU}-memory-ratio": 100})))
    assert not sharing.admits(read_pod(pod({f"{NPU}-core": 4, f"{GPU}-memory-ratio": 50})))
    assert sharing.admits(read_pod(pod({f"{GPU}-memory": 5})))
    assert sharing.admits(read_pod(pod({"koordinator.sh/rdma": 1})))
    assert not read_gpu_sharing().admits(share(**ASCEND["vir04"]))


def of_yaml(data):
    return read_gpu_sharing({"data": {"data.yaml": data}})


def of_rows(**rows):
    return read_gpu_sharing(config_map({"v-m": rows}))


def of_arguments(**arguments):
    return read_gpu_sharing(None, arguments)


RESOURCE_LESS = {"matchedResources": [""]}
UNNAMED = '{"gpu": [{"extension": {"gpuSharedResourceTemplate": 1}}]}'
BAD = [
    (TypeError, "config_map must be a mapping", lambda: read_gpu_sharing("x")),
    (TypeError, "arguments must be a mapping", lambda: read_gpu_sharing(None, [])),
    (TypeError, r"config_map.data\['data.yaml'\] must be a string", lambda: of_yaml(3)),
    (TypeError, "data.yaml.*mapping", lambda: of_yaml("invalid yaml")),
    (ValueError, "data.yaml.*is no YAML", lambda: of_yaml("{")),
    (ValueError, r"v-m'\].t.*no quantity", lambda: of_rows(t={f"{NPU}-core": "x"})),
    (ValueError, r"v-m'\].t.*no whole", lambda: of_rows(t={f"{NPU}-core": "1m"})),
    (ValueError, "v-m.*must not be empty", lambda: of_rows(**{"": {f"{NPU}-core": 1}})),
    (TypeError, "Models must be a list", lambda: of_arguments(gpuShareUnsupportedModels="x")),
    (
        *(TypeError, r"Models\[0\].vendor"),
        lambda: of_arguments(gpuShareUnsupportedModels=[{"vendor": 1}]),
    ),
    (
        *(ValueError, r"matchedResources\[0\]"),
        lambda: of_arguments(gpuSharedResourceTemplatesConfig=RESOURCE_LESS),
    ),
    (TypeError, "templates", lambda: GpuSharing([])),
    (TypeError, r"templates\['m'\]", lambda: GpuSharing({"m": ()})),
    (TypeError, "others", lambda: GpuSharing(others=None)),
    (ValueError, "unshareable", lambda: GpuSharing(unshareable=[("a",)])),
    (TypeError, "unshareable", lambda: GpuSharing(unshareable="ab")),
    (TypeError, "gpuSharedResourceTemplate", lambda: read_allocation(UNNAMED)),
]


@pytest.mark.parametrize(("error", "match", "call"), BAD)
def test_a_mistake_in_the_configuration_is_named_by_its_path(error, match, call):
    with pytest.raises(error, match=match) as result:
        call()
    assert result.type is error


@examples(300)
@given(st.data())
def test_whatever_the_documents_hold_the_answer_is_a_type_or_value_error(data):
    arguments = UNSHAREABLE | {
        "gpuSharedResourceTemplatesConfig": {"matchedResources": [f"{NPU}-core"]}
    }
    documents = data.draw(broken([MAP, arguments]))
    with refused_clearly():
        read_gpu_sharing(*documents)


def test_without_pyyaml_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match="pip install pyyaml"):
        read_gpu_sharing(config_map("model: {}", text=str))
    assert read_gpu_sharing(None, UNSHAREABLE).unshareable == {tuple(DUO.values())}
