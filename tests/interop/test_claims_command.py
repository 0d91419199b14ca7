"""`hivecore explain` and `hivecore validate` on objects of device claims."""

import json

import pytest
import yaml
from dra.worlds import claim, device, object_of, published_slice, request

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


def test_mistakes_are_named_with_their_place(tmp_path, capsys):
    (wrong,) = slices(n1=1)
    wrong["spec"]["devices"][0]["capacity"] = {"memory": {"value": "80GB"}}
    file = written(tmp_path / "wrong.yaml", wrong)
    for command in ("explain", "validate"):
        assert main([command, str(file)]) == 1
        error = capsys.readouterr().err
        assert f"{file}: ResourceSlice 'n1': devices[0].capacity[...].value" in error


def test_objects_are_counted(tmp_path, capsys):
    assert main(["validate", str(written(tmp_path / "a.yaml", GPU, *slices(n1=1, n2=1)))]) == 0
    assert capsys.readouterr().out == "2 x ResourceSlice, 1 x DeviceClass\n"


@pytest.mark.parametrize(
    ("objects", "message"),
    [([GPU, *slices(n1=1)], "no claim without an allocation"), ([GPU, wanted(1)], "no node")],
)
def test_what_is_missing_is_said(tmp_path, capsys, objects, message):
    assert main(["explain", str(written(tmp_path / "a.yaml", *objects))]) == 1
    assert message in capsys.readouterr().err


def test_gates_of_a_version_count(tmp_path, capsys):
    entry = wanted(1)
    entry["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"m": "1"}}
    file = written(tmp_path / "a.yaml", GPU, *slices(n1=1), entry)
    assert main(["explain", str(file), "--gate", "DRAConsumableCapacity=false"]) == 1
    assert "DRAConsumableCapacity is off" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["explain", str(file), "--gate", "DRAConsumableCapacity"])
    with pytest.raises(SystemExit):
        main(["explain", str(file), "--kubernetes", "1.2"])
