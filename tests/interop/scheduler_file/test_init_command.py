"""`hivecore init` writes what `hivecore validate` accepts, and what jobs run on."""

import pytest

from hivecore import cli
from hivecore.interop.scheduler_file import SHAPES, SchedulerSpec, shape_text
from hivecore.scheduler import Job, Role, Start

HIVED = """\
physicalCluster:
  cellTypes:
    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: NODE}
"""


@pytest.mark.parametrize("shape", SHAPES)
def test_what_init_prints_validates(shape, tmp_path, capsys, output):
    text = output("init", shape)
    path = tmp_path / "cluster.yaml"
    assert cli.main(["init", shape, "--out", str(path)]) == 0
    assert path.read_text() == text == shape_text(shape)
    capsys.readouterr()
    assert cli.main(["validate", str(path)]) == 0
    said = capsys.readouterr()
    nodes = {"node": 1, "rack": 16, "four-racks": 64}[shape]
    assert said.out.startswith(f"model  nodes\nh100   {nodes:>5}\n")
    assert said.err == ""


@pytest.mark.parametrize("shape", SHAPES)
def test_the_scheduler_of_a_shape_runs_jobs_of_all_tenants_and_keeps_what_is_promised(shape):
    spec = SchedulerSpec.of_yaml(shape_text(shape))
    scheduler = spec.scheduler()
    total = dict(scheduler.quotas.total())["gpu"]
    wanted = {
        name: dict(quota.min)["gpu"]
        for name in spec.tenants
        if not any(spec.quotas.quota(tenant).parent == name for tenant in spec.tenants)
        for quota in [spec.quotas.quota(name)]
    }
    assert 0 < sum(wanted.values()) <= total
    for tenant, gpus in wanted.items():
        size = 8 if gpus % 8 == 0 else 1
        for i in range(gpus // size):
            scheduler.submit(Job(f"{tenant}-{i}", tenant, [Role("w", gpus=size)]), 0.0)
    started = [action for action in scheduler.decide(0.0) if isinstance(action, Start)]
    assert len(started) == len(scheduler)
    assert all(pod.node in spec.nodes and pod.devices for entry in started for pod in entry.pods)
    scheduler.check()


def test_a_file_that_is_there_is_not_overwritten(tmp_path, refused):
    path = tmp_path / "cluster.yaml"
    path.write_text("mine")
    assert str(path) in refused("init", "rack", "--out", path)
    assert path.read_text() == "mine"


def test_there_are_but_these_shapes(refused):
    assert "invalid choice: 'planet'" in refused("init", "planet")
    with pytest.raises(ValueError, match="shape must be one of node, rack, four-racks"):
        shape_text("planet")


def test_validate_prints_every_mistake_of_a_cluster_with_its_line(tmp_path, capsys):
    path = tmp_path / "cluster.yaml"
    text = (
        shape_text("rack")
        .replace("gpus: 8", "gpus: eight")
        .replace("min: {gpu: 48}", "least: {gpu: 48}")
    )
    path.write_text(text)
    lines = text.splitlines()
    at = [
        1 + next(i for i, line in enumerate(lines) if word in line) for word in ("eight", "least:")
    ]
    assert cli.main(["validate", str(path)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        f"{path}:{at[0]}: cluster.models.h100.gpus: must be an integer from 0 to 2**31, "
        "not 'eight'",
        f"{path}:{at[1]}: tenants.product.quota.least: is none of parent, max, min, weight, lends, "
        "scales, outside",
        f"{path}: 2 mistakes",
    ]


def test_validate_knows_the_system_of_a_file(tmp_path, capsys, output):
    path = tmp_path / "hived.yaml"
    path.write_text(HIVED)
    assert output("validate", path).startswith("chain  cells  nodes  devices  levels\nNODE ")
    path.write_text("tenants: {}\n")
    assert cli.main(["validate", str(path)]) == 1
    assert f"{path}:1: cluster: is missing" in capsys.readouterr().err


def test_a_word_of_device_claims_hides_no_mistake_of_a_cluster(tmp_path, capsys):
    path = tmp_path / "cluster.yaml"
    path.write_text("cluster:  # claims of resource.k8s.io/v1\n  nodes: {n: a100}\n")
    assert cli.main(["validate", str(path)]) == 1
    assert f"{path}:2: cluster.nodes.n: there is no model 'a100'" in capsys.readouterr().err
    node = "kind: Node\nmetadata: {name: n, annotations: {of: resource.k8s.io/v1}}\n"
    version = "apiVersion: scheduling.run.ai/v2"
    queue = f"---\n{version}\nkind: Queue\nmetadata: {{name: q}}\nspec: {{priority: %s}}\n"
    for priority, status in ((100, 0), ("high", 1)):
        path.write_text(f"apiVersion: v1\n{node}{queue % priority}")
        assert cli.main(["validate", str(path)]) == status
    assert "Queue 'q': spec.priority: expected `int`, got `str`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ":1: must be a mapping with the key cluster, not nothing"),
        ("# nothing\n", ":1: must be a mapping with the key cluster, not nothing"),
        ("foo: 1\n", ":1: foo: is none of cluster, tenants, queues"),
        ("- 1\n", ":1: must be a mapping with the key cluster, not a list"),
        ("\x00\x01", ":1: is no YAML"),
    ],
)
def test_a_file_of_neither_kind_is_meant_to_be_hivecores_own(text, says, tmp_path, capsys):
    path = tmp_path / "some.yaml"
    path.write_text(text)
    assert cli.main(["validate", str(path)]) == 1
    error = capsys.readouterr().err
    assert f"{path}{says}" in error
    assert error.endswith(
        f"{path}: a file of hivecore has the key cluster, see `hivecore init`; one of HiveD has "
        "physicalCluster\n"
    )
    assert error.count("physicalCluster") == 1


@pytest.mark.parametrize(
    "text", ["PhysicalCluster: {}\n", "# physicalCluster:\n", "data: {a: 'virtualClusters: {}'}"]
)
def test_a_file_with_words_of_hived_is_read_as_its(text, tmp_path, capsys):
    path = tmp_path / "some.yaml"
    path.write_text(text)
    assert cli.main(["validate", str(path)]) == 1
    assert "hivecore init" not in capsys.readouterr().err


PROMISED = """\
cluster:
  models: {m: {gpus: 8, resources: {cpu: 192, memory: 2Ti}}}
  nodes: {'n[0-1]': m}
tenants:
  lab: {quota: {min: {gpu: 2}, max: {gpu: 16, memory: 4Ti, cpu: 100}}}
  a: {quota: {parent: lab, min: {gpu: %d, memory: 3Ti}, max: {gpu: 16, memory: 4Ti, cpu: 1500m}}}
  b: {quota: {min: {gpu: 8, memory: 1Ti, cpu: 9}, max: {gpu: 16, memory: 2560Gi, cpu: 100}}}
quotas: {%s}
devices:
"""


def test_validate_writes_amounts_of_quotas_as_users_write_them(tmp_path, capsys):
    path = tmp_path / "cluster.yaml"
    path.write_text(PROMISED % (8, ""))
    assert cli.main(["validate", str(path)]) == 0
    said = capsys.readouterr()
    rows = said.out.splitlines()
    assert "a      lab     cpu         0   1500m" in rows
    assert "a      lab     memory    3Ti     4Ti" in rows
    assert "b              memory    1Ti  2560Gi" in rows
    assert said.err == ""
    path.write_text((PROMISED % (8, "")).replace("3Ti", "5Ti"))
    assert cli.main(["validate", str(path)]) == 1
    assert "tenants.a.quota.min.memory: 5Ti is above max, 4Ti" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("", "gpu 20 of 16"),
        ("total: {gpu: 32, cpu: 384, memory: 4Ti}", "gpu 20 of 16"),
        ("total: {gpu: 20, cpu: 8, memory: 2Ti}", "cpu 9 of 8, gpu 20 of 16, memory 4Ti of 2Ti"),
    ],
)
def test_validate_says_that_quotas_promise_more_than_the_nodes_have(
    settings, says, tmp_path, capsys
):
    path = tmp_path / "cluster.yaml"
    path.write_text(PROMISED % (12, settings))
    assert cli.main(["validate", str(path)]) == 0
    warning = "quotas: not all quotas can have their min at the same time: "
    assert capsys.readouterr().err == f"{warning}{says}\n"


def test_validate_refuses_parts_that_do_not_go_together(tmp_path, capsys):
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "cluster: {models: {m: {gpus: 8, resources: {amd.com/gpu: 8}}}, nodes: {n: m}}\n"
        "tenants: {a: {quota: {max: {amd.com/gpu: 8}}}}\ndevices:\n"
    )
    assert cli.main(["validate", str(path)]) == 1
    assert f"{path}: quotas['a']" in capsys.readouterr().err


def test_validate_prints_layers_cells_and_quotas(tmp_path, output):
    path = tmp_path / "cluster.yaml"
    path.write_text(shape_text("rack"))
    said = output("validate", path)
    assert "layer   domains\nrack          1\nswitch        4\n" in said
    assert "product           gpu        48   64\n" in said
    assert said.endswith("A scheduler of it has queues, quotas, topology, devices.\n")
    path.write_text(shape_text("four-racks"))
    assert "vision           H100   rack       1\n" in output("validate", path)


PINNED = HIVED.replace("{cellType: NODE}", "{cellType: NODE, pinnedCellId: mine}")


@pytest.mark.parametrize("within", [False, True])
def test_validate_says_that_a_pinned_cell_belongs_to_no_tenant(within, tmp_path, capsys):
    hived, cluster = tmp_path / "hived.yaml", tmp_path / "cluster.yaml"
    hived.write_text(PINNED)
    cluster.write_text("cluster: {cells: {hived: hived.yaml}}\n")
    assert cli.main(["validate", str(cluster if within else hived)]) == 0
    out, err = capsys.readouterr()
    assert "NODE" in out
    assert err.startswith(f"{hived}: physicalCluster.physicalCells[0]")
    assert "pinnedCellId: the pinned cell 'mine' belongs to no tenant: " in err


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("cluster: {common: {}}\nhivedscheduler:\n  config: |\n", "hivedscheduler.config"),
        ("kind: ConfigMap\ndata:\n  config: |\n", "data.config"),
    ],
)
def test_validate_says_where_in_another_file_the_configuration_is(text, place, tmp_path, capsys):
    path = tmp_path / "outer.yaml"
    inner = "".join(f"    {line}\n" for line in HIVED.splitlines())
    path.write_text(text + inner)
    assert cli.main(["validate", str(path)]) == 1
    expected = f"{path}: the configuration is the text at {place}\n{path}: 1 mistake\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("shape", ["rack", "four-racks"])
def test_a_cluster_s_file_as_windows_writes_it_is_read(shape, tmp_path, output):
    outputs = []
    for ends, mark in (("\n", ""), ("\r\n", "\ufeff")):
        path = tmp_path / "cluster.yaml"
        path.write_bytes((mark + shape_text(shape).replace("\n", ends)).encode())
        outputs.append(output("validate", path))
    assert outputs[0] == outputs[1]
