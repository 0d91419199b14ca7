"""`hivecore explain` and `hivecore validate` on objects of device claims."""

import copy
import json

import pytest
import yaml
from dra.worlds import (
    claim,
    device,
    either,
    object_of,
    published_slice,
    request,
    shared,
    terms,
)

from hivecore.cli import main

GPU = object_of(
    "DeviceClass",
    {
        "metadata": {"name": "any"},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.x"'}}]},
    },
)


def slices(**free):
    return [
        object_of(
            "ResourceSlice",
            published_slice(n, [device(f"d{i}") for i in range(of)], nodeName=n, pool=n),
        )
        for n, of in free.items()
    ]


def written(path, *objects):
    path.write_text(yaml.safe_dump_all(objects))
    return path


def wanted(count, name="train"):
    return object_of("ResourceClaim", claim(request("gpus", count), name=name))


def test_nodes_and_reasons_of_each_claim_are_printed(tmp_path, capsys):
    file = written(tmp_path / "all.yaml", GPU, *slices(n1=1, n2=2, n3=2), wanted(2), wanted(3, "x"))
    assert main(["explain", str(file)]) == 1
    assert capsys.readouterr().out == (
        "train: fits n2, n3\n"
        "  not n1: request gpus wants 2; devices that suit it and are free: 1\n"
        "  on n2 it would get gpus: gpu.x/n2/d0, gpus: gpu.x/n2/d1\n"
        "x: fits no node\n"
        "  not n1: request gpus wants 3; devices that suit it and are free: 1\n"
        "  not n2, n3: request gpus wants 3; devices that suit it and are free: 2\n"
    )


def test_what_decides_is_printed_for_the_first_of_nodes_with_the_same_reason(tmp_path, capsys):
    entry = wanted(2)
    entry["spec"]["devices"]["constraints"] = [{"matchAttribute": "gpu.x/root"}]
    parts = slices(n1=2, n2=2, n3=2)
    for part in parts:
        for of in part["spec"]["devices"]:
            of["attributes"] = {"root": {"string": of["name"]}}
    parts[2]["spec"]["pool"]["resourceSliceCount"] = 2
    file = written(tmp_path / "all.yaml", GPU, *parts, entry)
    assert main(["explain", str(file)]) == 1
    assert capsys.readouterr().out == (
        "train: fits no node\n"
        "  not n1, n2: no value of gpu.x/root has enough devices for request gpus\n"
        "    n1 would fit without constraints[0].matchAttribute gpu.x/root\n"
        "  not n3: request gpus wants 2; devices that suit it and are free: 0\n"
        "    pool gpu.x/n3 is incomplete: 1 of 2 slices\n"
    )


def test_lists_templates_and_held_devices_count(tmp_path, capsys):
    listed = {"apiVersion": "v1", "kind": "List", "items": [GPU, *slices(n1=2)]}
    held = wanted(1, "held") | {
        "status": {
            "allocation": {
                "devices": {
                    "results": [
                        {"request": "gpus", "driver": "gpu.x", "pool": "n1", "device": "d0"}
                    ]
                }
            }
        }
    }
    template = object_of(
        "ResourceClaimTemplate",
        {"metadata": {"name": "each"}, "spec": {"spec": wanted(1)["spec"]}},
    )
    (tmp_path / "list.json").write_text(json.dumps(listed))
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    file = written(tmp_path / "rest.yaml", held, template, other)
    assert main(["explain", str(tmp_path / "list.json"), str(file)]) == 0
    assert capsys.readouterr().out == ("each: fits n1\n  on n1 it would get gpus: gpu.x/n1/d1\n")


def test_an_object_that_is_there_twice_and_differs_is_a_mistake_in_any_order(tmp_path, capsys):
    first, second = [written(tmp_path / f"{n}.yaml", *slices(n1=n)) for n in (1, 2)]
    rest = written(tmp_path / "rest.yaml", GPU, wanted(2), wanted(1))
    for files in ([first, second, rest], [second, first, rest]):
        assert main(["explain", *map(str, files)]) == 2
        error = f"{files[1]}: ResourceSlice 'n1': is there twice, and differs\n"
        assert capsys.readouterr().err == error
    assert (
        main(["explain", str(second), str(second), str(rest)]) == 0
    )  # a claim, and a change of it
    assert capsys.readouterr().out.count("fits n1") == 2


def test_rules_of_taints_that_do_not_count_are_named(tmp_path, capsys):
    rule = {"deviceSelector": {"driver": "gpu.x"}, "taint": {"key": "k", "effect": "NoSchedule"}}
    taints = {"kind": "DeviceTaintRule", "metadata": {"name": "bad"}, "spec": rule}
    file = str(written(tmp_path / "all.yaml", GPU, *slices(n1=1), taints, wanted(1)))
    for version in ("1.35", "1.36"):
        assert main(["explain", file, "--kubernetes", version]) == 0
        error = f"DeviceTaintRules do not count: DRADeviceTaintRules is off in Kubernetes {version}"
        assert capsys.readouterr().err == f"{file}: {error}\n"
    assert main(["explain", file, "--gate", "DRADeviceTaintRules=true"]) == 1
    assert capsys.readouterr().err == ""


def test_a_gate_has_one_value(tmp_path, refused):
    file = str(written(tmp_path / "all.yaml", GPU, *slices(n1=1), wanted(1)))
    gate = ["--gate", "DRAAdminAccess=true"]
    assert main(["explain", file, *gate, *gate]) == 0
    refused("explain", file, *gate, "--gate", "DRAAdminAccess=false")


def test_validate_names_selectors_without_an_expression(tmp_path, capsys):
    entry = wanted(1)
    entry["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{}]
    file = written(tmp_path / "all.yaml", GPU, entry)
    assert main(["validate", str(file)]) == 2
    path = "spec.devices.requests[0].exactly.selectors[0]"
    assert capsys.readouterr().err == f"{file}: ResourceClaim 'train': {path}: cel must be set\n"


def test_mistakes_are_named_with_their_place(tmp_path, capsys):
    (wrong,) = slices(n1=1)
    wrong["spec"]["devices"][0]["capacity"] = {"memory": {"value": "80GB"}}
    file = written(tmp_path / "wrong.yaml", wrong)
    for command in ("explain", "validate"):
        assert main([command, str(file)]) == 2
        error = capsys.readouterr().err
        assert f"{file}: ResourceSlice 'n1': spec.devices[0].capacity['memory'].value" in error


def with_field(document, *path):
    """An object in which a field of this path is added."""
    document = inner = copy.deepcopy(document)
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = 2
    return document


EXACTLY = "spec", "devices", "requests", 0, "exactly"
TEMPLATE = {"metadata": {"name": "t"}, "spec": {"spec": wanted(1)["spec"]}}


def template(*requests):
    metadata = {"name": "t", "namespace": "team"}
    return {"metadata": metadata, "spec": {"spec": claim(*requests)["spec"]}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            with_field(wanted(1), *EXACTLY, "cuont"),
            "ResourceClaim 'train': spec.devices.requests[0].exactly.cuont: is unknown, is count "
            "meant?",
        ),
        (
            with_field(wanted(1), "sepc"),
            "ResourceClaim 'train': sepc: is unknown, is spec meant?",
        ),
        (
            with_field(wanted(1), "spec", "other"),
            "ResourceClaim 'train': spec.other: is unknown, known are devices",
        ),
        (
            with_field(object_of("ResourceClaimTemplate", TEMPLATE), "spec", "devices"),
            "ResourceClaimTemplate 't': spec.devices: is unknown, known are metadata, spec",
        ),
        (
            object_of("ResourceClaimTemplate", template(request("r", "two"))),
            "ResourceClaimTemplate 'team/t': spec.spec.devices.requests[0].exactly.count: must be "
            "an integer, not 'two'",
        ),
        (
            with_field(
                object_of("ResourceClaimTemplate", template(request("r"))),
                *("spec", "spec", "devices", "requests", 0, "exactly", "cuont"),
            ),
            "ResourceClaimTemplate 'team/t': spec.spec.devices.requests[0].exactly.cuont: is "
            "unknown",
        ),
        (
            object_of("ResourceClaim", claim(request("r"))) | {"spec": "devices"},
            "ResourceClaim 'c': spec: must be a mapping, not 'devices'",
        ),
        (
            with_field(slices(n1=1)[0], "spec", "devices", 0, "capcity"),
            "ResourceSlice 'n1': spec.devices[0].capcity: is unknown, is capacity meant?",
        ),
        (
            slices(n1=1)[0]
            | {"spec": published_slice("n1", [device("d", capacity={"m": "20E"})])["spec"]},
            "ResourceSlice 'n1': spec.devices[0].capacity.m: 20000000000000000000 exceeds 62 bits",
        ),
        (
            object_of("ResourceClaim", claim(request("r", capacity={"m": "1n"}), name="train")),
            "ResourceClaim 'train': m: 1/1000000000 beside 4000000000000000000 exceeds 62 bits",
        ),
    ],
)
def test_what_explain_refuses_validate_refuses_with_the_file_and_field(
    tmp_path, capsys, document, message
):
    shares = published_slice("s", [shared("d", {"m": "4E"})], nodeName="n2", pool="n2")
    file = written(tmp_path / "a.yaml", GPU, object_of("ResourceSlice", shares), document)
    for command in ("explain", "validate"):
        assert main([command, str(file)]) == 2
        assert f"{file}: {message}" in capsys.readouterr().err


def test_validate_names_each_class_that_is_missing(tmp_path, capsys):
    choice = either("b", x=terms(), y=terms(deviceClassName="other"))
    entry = object_of("ResourceClaim", claim(request("a", deviceClassName="no"), choice))
    entry["metadata"]["namespace"] = "team"
    each = object_of("ResourceClaimTemplate", template(request("r", deviceClassName="")))
    file = written(tmp_path / "a.yaml", entry, each, GPU)
    assert main(["validate", str(file)]) == 2
    path = "spec.devices.requests"
    assert capsys.readouterr().err.splitlines() == [
        f"{file}: ResourceClaim 'team/c': {path}[0].exactly.deviceClassName: no DeviceClass 'no'",
        f"{file}: ResourceClaim 'team/c': {path}[1].firstAvailable[1].deviceClassName: "
        "no DeviceClass 'other'",
        f"{file}: ResourceClaimTemplate 'team/t': spec.{path}[0].exactly.deviceClassName: "
        "is missing",
    ]


def test_validate_names_what_no_cluster_can_serve(tmp_path, capsys):
    expression = [{"cel": {"expression": "device.model"}}]
    kind = object_of("DeviceClass", {"metadata": {"name": "k"}, "spec": {"selectors": expression}})
    wrong = request("a", where="device.model", allocationMode="all")
    each = template(wrong, either("b", x=terms(), y=terms(where="device.driver ==")))
    each["spec"]["spec"]["devices"]["constraints"] = [{"requests": ["a"]}]
    each = object_of("ResourceClaimTemplate", each)
    file = written(tmp_path / "a.yaml", GPU, kind, each)
    assert main(["validate", str(file)]) == 2
    at, field = f"{file}: ResourceClaimTemplate 'team/t': spec.spec.devices", "cel.expression"
    undefined = "undefined field 'model' of the device (character 7)"
    *others, last = capsys.readouterr().err.splitlines()
    assert others == [
        f"{file}: DeviceClass 'k': spec.selectors[0].{field}: {undefined}",
        f"{at}.requests[0].exactly.allocationMode: 'all', allowed are ExactCount and All",
        f"{at}.constraints[0]: matchAttribute or distinctAttribute must be set",
        f"{at}.requests[0].exactly.selectors[0].{field}: {undefined}",
    ]
    assert last.startswith(f"{at}.requests[1].firstAvailable[1].selectors[0].{field}: ")


def test_validate_says_once_that_classes_are_not_given(tmp_path, capsys):
    file = written(tmp_path / "a.yaml", wanted(1), wanted(2, "other"))
    assert main(["validate", str(file)]) == 0
    printed = capsys.readouterr()
    assert printed.out == "2 x ResourceClaim\n"
    assert printed.err == f"{file}: holds no DeviceClass, so no name of a class is checked\n"
    assert main(["validate", str(written(file, *slices(n1=1)))]) == 0
    assert capsys.readouterr().err == ""


def test_fields_that_a_driver_may_know_are_no_mistakes(tmp_path, capsys):
    (part,) = slices(n1=1)
    part["spec"]["devices"][0]["nodeAllocatableResourceMappings"] = {}
    part["spec"]["somethingNew"] = {"field": 1}
    assert main(["validate", str(written(tmp_path / "a.yaml", GPU, part))]) == 0


LAUGHS = "\n".join(
    [
        "a0: &a0 [x, x, x, x, x, x, x, x, x, x]",
        *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)),
    ]
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [a]", "kind must be a string, not a list"),
        ("kind: 1", "kind must be a string, not 1"),
        ("- kind: ResourceClaim\n- 7", "[1] must be an object, not 7"),
        (LAUGHS, "document: aliases stand for more than 1,000,000 values"),
        (LAUGHS.replace("[*", "[<<, *"), "document: aliases stand for more than"),
        ("spec: &a {devices: *a}", "document: the alias 'a' stands for what it is in"),
        ("spec: {a: &a 1, a: *b}", "document: is no YAML: "),
    ],
)
def test_what_is_no_object_is_an_error(tmp_path, text, message, refused):
    file = tmp_path / "a.yaml"
    file.write_text(f"apiVersion: resource.k8s.io/v1\n{text}" if text[0] != "-" else text)
    for command in ("explain", "validate") if text[0] != "-" else ("explain",):
        assert f"{file}: {message}" in refused(command, file)


def test_aliases_that_stand_for_little_are_read(tmp_path, capsys):
    file = tmp_path / "a.yaml"
    text = yaml.safe_dump(wanted(2), sort_keys=True)
    file.write_text(
        text.replace("name: train", "name: &n train, uid: *n").replace(", uid", "\n  uid")
    )
    assert main(["validate", str(file)]) == 0


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_a_claim_without_an_api_version_is_no_cluster_file(tmp_path, kind, output):
    document = {"kind": kind, **(claim(request("r")) if kind == "ResourceClaim" else TEMPLATE)}
    for dump in (yaml.safe_dump, json.dumps):
        (tmp_path / "a.yaml").write_text(dump(document))
        assert output("validate", tmp_path / "a.yaml") == "1 x ResourceClaim\n"


def test_a_cluster_file_with_claims_has_claims(tmp_path, output):
    (tmp_path / "a.yaml").write_text("claims: {}\n")
    assert output("validate", tmp_path / "a.yaml") == "\nA scheduler of it has claims.\n"


def test_objects_are_counted(tmp_path, capsys):
    assert main(["validate", str(written(tmp_path / "a.yaml", GPU, *slices(n1=1, n2=1)))]) == 0
    assert capsys.readouterr().out == "2 x ResourceSlice, 1 x DeviceClass\n"


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([GPU, *slices(n1=1)], "no ResourceClaim without an allocation"),
        ([GPU, wanted(1)], "no node"),
    ],
)
def test_what_is_missing_is_said(tmp_path, capsys, objects, message):
    assert main(["explain", str(written(tmp_path / "a.yaml", *objects))]) == 1
    assert f"{tmp_path / 'a.yaml'}: {message}" in capsys.readouterr().err


def test_gates_of_a_version_count(tmp_path, capsys, refused):
    entry = wanted(1)
    entry["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"m": "1"}}
    file = written(tmp_path / "a.yaml", GPU, *slices(n1=1), entry)
    assert main(["explain", str(file), "--gate", "DRAConsumableCapacity=false"]) == 1
    assert "DRAConsumableCapacity is off" in capsys.readouterr().out
    refused("explain", file, "--gate", "DRAConsumableCapacity")
    refused("explain", file, "--kubernetes", "1.2")


def test_a_file_that_holds_no_objects_is_said_to_hold_none(tmp_path, refused):
    file = written(tmp_path / "cluster.yaml", {"cluster": {"nodes": {"n1": {"gpus": 8}}}})
    assert f"{file}: a document without a kind is no object of" in refused("explain", file)
