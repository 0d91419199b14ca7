import base64
import copy
import io
import json
import pickle

import numpy as np
import pytest
import yaml

from hivecore.interop.hived import ConfigError, HivedConfig, HivedScheduler
from hivecore.interop.hived.configuration._yaml_text import read_yaml
from hivecore.interop.kubernetes.problems import Problems


def nodes(*names):
    return {"cellChildren": [{"cellAddress": name} for name in names]}


def kind(child, number, node=False):
    return {"childCellType": child, "childCellNumber": number, "isNodeLevel": node}


def cells(path, number):
    return {"cellType": path, "cellNumber": number}


def cluster(types, physical, **tenants):
    physical = {"cellTypes": types, "physicalCells": physical}
    return {"physicalCluster": physical, "virtualClusters": tenants}


def problems_of(document):
    with pytest.raises(ConfigError) as caught:
        HivedConfig.read(document)
    return caught.value.problems


# The cluster of HiveD's example "design", with other names.
DESIGN = {
    "kubeApiServerAddress": "http://localhost:8080",
    "physicalCluster": {
        "skuTypes": {"K": {"gpu": 1, "cpu": 4, "memory": "8192Mi"}},
        "cellTypes": {
            "C-NODE": kind("C", 2, True),
            "P-SWITCH": kind("P", 2),
            "P-SOCKET": kind("P-SWITCH", 2),
            "P-NODE": kind("P-SOCKET", 2, True),
            "3-P-NODE": kind("P-NODE", 3),
            "V-2": kind("V", 2),
            "V-4": kind("V-2", 2),
            "V-8": kind("V-4", 2),
            "V-NODE": kind("V-8", 2, True),
            "2-V-NODE": kind("V-NODE", 2),
            "3-V-NODE": kind("V-NODE", 3),
            "4-V-NODE": kind("2-V-NODE", 2),
            "I-2": kind("I", 2),
            "I-4": kind("I-2", 2),
            "I-8": kind("I-4", 2),
            "I-NODE": kind("I-8", 2, True),
            "2-I-NODE": kind("I-NODE", 2),
        },
        "physicalCells": [
            {"cellType": "C-NODE", "cellAddress": "0.0.0.0"},
            {"cellType": "C-NODE", "cellAddress": "0.0.0.1"},
            {
                "cellType": "C-NODE",
                "cellAddress": "1.0.0.2",
                "cellChildren": [{"cellAddress": 8, "pinnedCellId": "pin-C"}, {"cellAddress": 9}],
            },
            {
                "cellType": "3-P-NODE",
                "cellChildren": [
                    {"cellAddress": "1.0.0.2", "cellChildren": None},
                    {"cellAddress": "1.0.0.1", "cellChildren": []},
                    {
                        "cellAddress": "1.0.0.0",
                        "cellChildren": [
                            {
                                "cellAddress": 1,
                                "cellChildren": [
                                    {"cellAddress": 1, **nodes(1, 3)},
                                    {"cellAddress": 0, **nodes(4, 7)},
                                ],
                            },
                            {
                                "cellAddress": 0,
                                "cellChildren": [
                                    {"cellAddress": 1, **nodes(0, 2)},
                                    {"cellAddress": 0, **nodes(6, 5)},
                                ],
                            },
                        ],
                    },
                ],
            },
            {"cellType": "V-NODE", "cellAddress": "0.0.1.0"},
            {"cellType": "V-NODE", "cellAddress": "0.0.5.0"},
            {"cellType": "3-V-NODE", **nodes("0.0.2.0", "0.0.2.1", "0.0.2.2")},
            {
                "cellType": "4-V-NODE",
                "cellChildren": [
                    {"pinnedCellId": "pin-V", **nodes("0.0.3.0", "0.0.3.1")},
                    nodes("0.0.3.2", "0.0.3.3"),
                ],
            },
            {
                "cellType": "4-V-NODE",
                "cellChildren": [nodes("0.0.4.0", "0.0.4.1"), nodes("0.0.4.2", "0.0.4.3")],
            },
            {"cellType": "2-I-NODE", "pinnedCellId": "pin-I", **nodes("0.1.0.0", "0.1.0.1")},
        ],
    },
    "virtualClusters": {
        "VC1": {
            "virtualCells": [
                cells("4-V-NODE.2-V-NODE.V-NODE", 2),
                cells("3-V-NODE.V-NODE", 2),
                cells("V-NODE", 2),
                cells("4-V-NODE.2-V-NODE", 1),
            ],
            "pinnedCells": [
                {"pinnedCellId": "pin-C"},
                {"pinnedCellId": "pin-V"},
                {"pinnedCellId": "pin-I"},
            ],
        },
        "VC2": {
            "virtualCells": [
                cells("3-P-NODE.P-NODE", 2),
                cells("3-P-NODE.P-NODE.P-SOCKET", 2),
                cells("C-NODE", 1),
            ]
        },
    },
}


@pytest.fixture(scope="module")
def design():
    return HivedConfig.read(DESIGN)


def virtual_addresses(config):
    for vc in config.spec.virtual_clusters:
        for chain, level, pin, rank in config.preassigned(vc):
            shape = config.spec.chains[chain]
            per_cell = shape.leaves_per_cell()
            root = shape.levels.index(level)
            for own, name in enumerate(shape.levels[: root + 1]):
                inside = per_cell[root] // per_cell[own]
                for i in range(inside):
                    place = vc, chain, level, pin, name, rank * inside + i
                    yield config.virtual_address(*place), place


def test_the_design_example_has_528_physical_and_423_virtual_cells(design):
    physical = [
        (address, (name, level, index))
        for name, chain in design.spec.chains.items()
        for level in chain.levels
        for index, address in enumerate(design.addresses(name, level))
    ]
    assert len(physical) == 528
    for address, place in physical:
        assert design.address(*place) == address
        assert place in design.locate(address)
    virtual = dict(virtual_addresses(design))
    assert len(virtual) == 423
    for address, place in virtual.items():
        assert design.locate_virtual(address) == place


def test_chains_are_named_after_top_cells_in_the_order_of_the_list(design):
    names = ["C-NODE", "3-P-NODE", "V-NODE", "3-V-NODE", "4-V-NODE", "2-I-NODE"]
    assert list(design.spec.chains) == names
    assert design.leaf_types == ("C", "P", "V", "I")
    chain = design.spec.chains["4-V-NODE"]
    assert chain.levels == ("V", "V-2", "V-4", "V-8", "V-NODE", "2-V-NODE", "4-V-NODE")
    assert (chain.fanouts, chain.roots, chain.node_level) == ((2,) * 6, 2, "V-NODE")
    assert chain.nodes == tuple(f"0.0.{i}.{j}" for i in (3, 4) for j in range(4))
    assert chain.leaf_indices is None


def test_nodes_and_their_device_indices_are_as_spelled_out(design):
    assert design.spec.chains["C-NODE"].nodes == ("0.0.0.0", "0.0.0.1", "1.0.0.2")
    assert design.spec.chains["C-NODE"].leaf_indices == ((0, 1), (0, 1), (8, 9))
    plain = tuple(range(8))
    assert design.spec.chains["3-P-NODE"].leaf_indices == (plain, plain, (1, 3, 4, 7, 0, 2, 6, 5))
    assert design.address("3-P-NODE", "P", 16 + 3) == "3/1.0.0.0/1/0/7"
    # A machine with two kinds of devices is a node of two chains.
    assert design.locate("1.0.0.2/8") == (("C-NODE", "C", 4),)


def test_owned_and_pinned_cells_are_in_the_spec(design):
    assert design.spec.virtual_clusters["VC1"] == {
        "4-V-NODE": {"V-NODE": 2, "2-V-NODE": 1},
        "3-V-NODE": {"V-NODE": 2},
        "V-NODE": {"V-NODE": 2},
    }
    assert design.spec.pinned_cells == {
        "VC1": {
            "pin-C": ("C-NODE", "C", 4),
            "pin-V": ("4-V-NODE", "2-V-NODE", 0),
            "pin-I": ("2-I-NODE", "2-I-NODE", 0),
        }
    }
    kinds = [(chain, level, pin) for chain, level, pin, _ in design.preassigned("VC1")]
    assert kinds[6:] == [
        ("4-V-NODE", "2-V-NODE", None),
        ("C-NODE", "C", "pin-C"),
        ("4-V-NODE", "2-V-NODE", "pin-V"),
        ("2-I-NODE", "2-I-NODE", "pin-I"),
    ]


def test_default_addresses_above_the_node_continue_the_place_of_the_top_cell():
    types = {"N": kind("G", 4, True), "R": kind("N", 2), "S": kind("R", 3)}
    physical = [{"cellType": "N"}, {"cellType": "S"}, {"cellType": "S", "cellAddress": "row"}]
    config = HivedConfig.read(cluster(types, physical))
    assert config.address("S", "S", 1) == "row"
    assert config.addresses("S", "R") == [*(f"1/{i}" for i in (3, 4, 5)), "row/6", "row/7", "row/8"]
    assert config.spec.chains["S"].nodes == tuple(str(i) for i in range(6, 18))
    assert config.address("S", "G", 47) == "row/8/17/3"


def test_a_repeated_kind_continues_the_rank_and_the_numbers_of_a_virtual_cluster():
    types = {"N": kind("G", 4, True)}
    owned = {"virtualCells": [cells("N", 2), cells("N.G", 3), cells("N", 1)]}
    document = cluster(types, [{"cellType": "N"}] * 4, A=owned)
    config = HivedConfig.read(document)
    assert config.spec.virtual_clusters == {"A": {"N": {"N": 3, "G": 3}}}
    assert config.preassigned("A")[-1] == ("N", "N", None, 2)
    assert config.virtual_address("A", "N", "N", None, "G", 2 * 4 + 3) == "A/5/3"
    assert config.locate_virtual("A/5/3") == ("A", "N", "N", None, "G", 11)
    for nowhere in ("A", "A/6", "A/5/4", "A/5/3/0", "A/-1", "A/05", "B/0", "A/5/x", ""):
        assert config.locate_virtual(nowhere) is None


def test_path_text_bytes_and_mapping_give_the_same(tmp_path, design):
    text = yaml.safe_dump(DESIGN, sort_keys=False)
    path = tmp_path / "hived.yaml"
    path.write_text(text)
    for source in (path, str(path), io.StringIO(text), io.BytesIO(text.encode())):
        assert HivedConfig.read(source) == design
    assert pickle.loads(pickle.dumps(design)) == HivedConfig.read(design.document) == design


def test_scalars_are_read_as_the_text_they_are():
    text = """
    physicalCluster:
      cellTypes: {0x10: {childCellType: on, childCellNumber: 0x2, isNodeLevel: yes}}
      physicalCells: [{cellType: 0x10, cellAddress: 010}, {cellType: '0x10', cellAddress: 1e3}]
    virtualClusters: {no: {virtualCells: [{cellType: 0x10.on, cellNumber: 1_0}]}, ~: {}}
    """
    short = "chain '0x10', level 'on': 6 cells too few for what is owned (no 10)"
    expected = [("virtualClusters['']", "must not be empty"), ("virtualClusters", short)]
    assert problems_of(io.StringIO(text)) == expected
    config = HivedConfig.read(io.StringIO(text.replace("1_0}]}, ~: {}", "0b11}]}")))
    assert config.spec.chains["0x10"].nodes == ("010", "1e3")
    assert config.spec.virtual_clusters == {"no": {"0x10": {"on": 3}}}
    config = HivedConfig.read(
        io.StringIO(text.replace("1_0}]}, ~: {}", "&n 1}, {cellType: 0x10.on, cellNumber: *n}]}"))
    )
    assert config.spec.virtual_clusters == {"no": {"0x10": {"on": 2}}}


def test_anchors_and_merge_keys_are_expanded():
    text = """
    physicalCluster:
      cellTypes:
        A: &a {childCellType: G, childCellNumber: 4, isNodeLevel: true}
        B: {<<: *a, childCellNumber: 2}
      physicalCells: [&cell {cellType: A}, *cell, {<<: [*cell], cellType: B}]
    """
    chains = HivedConfig.read(io.StringIO(text)).spec.chains
    shapes = {name: (chain.roots, chain.fanouts) for name, chain in chains.items()}
    assert shapes == {"A": (2, (4,)), "B": (1, (2,))}


def test_older_names_of_pinned_cells_are_read():
    mine = {"reservationId": "mine"}
    types = {"N": kind("G", 4, True)}
    document = cluster(types, [{"cellType": "N", **mine}], A={"reservedCells": [mine]})
    document["physicalCluster"]["gpuTypes"] = {}
    assert HivedConfig.read(document).spec.pinned_cells == {"A": {"mine": ("N", "N", 0)}}


def test_knobs_of_the_extender_are_read():
    def knobs(**said):
        config = HivedConfig.read(DESIGN | said)
        assert HivedConfig.read(config.document) == config
        return config.force_bind_threshold, config.waiting_block_milliseconds

    assert knobs() == (3, 0)
    said = {"forcePodBindThreshold": 0, "waitingPodSchedulingBlockMilliSec": "200"}
    assert knobs(**said) == (0, 200)
    with pytest.raises(ConfigError) as caught:
        knobs(forcePodBindThreshold=-1, waitingPodSchedulingBlockMilliSec="long")
    assert len(caught.value.problems) == 2


PLAIN = {
    "physicalCluster": {
        "skuTypes": {"K": {"gpu": 1}},
        "cellTypes": {"NODE": kind("GPU", 4, True), "POOL": kind("NODE", 2)},
        "physicalCells": [
            {
                "cellType": "POOL",
                "cellChildren": [{"cellAddress": "n1", "pinnedCellId": "mine"}, {}],
            }
        ],
    },
    "virtualClusters": {
        "a": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 1}]},
        "b": {"pinnedCells": [{"pinnedCellId": "mine"}]},
    },
    "kubeApiServerAddress": "http://10.0.0.1:8080",
    "kubeConfigFilePath": "/kube/config",
    "webServerAddress": ":9096",
}
LEVELS = {
    "": set(PLAIN) | {"forcePodBindThreshold", "waitingPodSchedulingBlockMilliSec"},
    "physicalCluster": {"skuTypes", "gpuTypes", "cellTypes", "physicalCells"},
    "physicalCluster.cellTypes.POOL": {"childCellType", "childCellNumber", "isNodeLevel"},
    "physicalCluster.physicalCells[0]": {
        *("cellType", "cellAddress", "pinnedCellId", "reservationId", "cellChildren"),
    },
    "physicalCluster.physicalCells[0].cellChildren[1]": {
        *("cellType", "cellAddress", "pinnedCellId", "reservationId", "cellChildren"),
    },
    "virtualClusters.a": {"virtualCells", "pinnedCells", "reservedCells"},
    "virtualClusters.a.virtualCells[0]": {"cellType", "cellNumber"},
    "virtualClusters.b.pinnedCells[0]": {"pinnedCellId", "reservationId"},
}
KEYS = sorted(set().union(*LEVELS.values()))


def with_key(place, key, value=1):
    document = copy.deepcopy(PLAIN)
    inner = document
    for part in place.replace("[", ".").replace("]", "").split(".") if place else ():
        inner = inner[int(part) if part.isdecimal() else part]
    inner[key] = value
    return document


def test_keys_that_only_the_rest_of_hived_and_openpai_read_are_allowed():
    config = HivedConfig.read(PLAIN)
    assert config.spec.pinned_cells == {"b": {"mine": ("POOL", "NODE", 0)}}
    assert config.remarks == ()


@pytest.mark.parametrize("place", LEVELS)
@pytest.mark.parametrize("key", [*KEYS, "comment", "x-anchor", "CellType", 5])
def test_a_key_in_the_wrong_place_or_an_unknown_one_is_named(place, key):
    if key in LEVELS[place]:
        return
    mistakes = problems_of(with_key(place, key))
    (problem,) = (text for at, text in mistakes if "unknown" in text or "here" in text)
    if key in KEYS:
        assert problem.startswith("has no meaning here, it belongs to ")
    else:
        assert problem.startswith("is unknown, ")
    path = f"{place}.{key}" if place else str(key)
    assert next(at for at, text in mistakes if text == problem) in (path, f"{place}[{key}]")


@pytest.mark.parametrize("place", ["virtualClusters", "physicalCluster.cellTypes"])
@pytest.mark.parametrize("key", ["virtualCells", "cellTypes", "pinnedCells", "isNodeLevel"])
def test_a_key_where_names_are_expected_is_named(place, key):
    for value in (None, {}):
        with pytest.raises(ConfigError, match=f"{place}.{key}: has no meaning here, it belongs to"):
            HivedConfig.read(with_key(place, key, value))


def test_two_names_of_one_pinned_cell_must_agree():
    place = "virtualClusters.b.pinnedCells[0]"
    assert HivedConfig.read(with_key(place, "reservationId", "mine")).remarks == ()
    with pytest.raises(ConfigError, match="pinnedCellId: differs from reservationId, its older"):
        HivedConfig.read(with_key(place, "reservationId", "other"))


def test_a_pinned_cell_that_belongs_to_no_tenant_is_a_remark():
    document = copy.deepcopy(PLAIN)
    document["virtualClusters"]["b"] = {}
    config = HivedConfig.read(document)
    (remark,) = config.remarks
    assert remark == (
        "physicalCluster.physicalCells[0].cellChildren[0].pinnedCellId",
        "the pinned cell 'mine' belongs to no tenant: no virtual cluster has it, and it is a cell "
        "like any other",
    )
    assert HivedConfig.read(config.document) == config


INNER = "physicalCluster: {}\nvirtualClusters: {}\n"
MAP = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"hived.yaml": INNER}}
APPLIED = {
    "kind": "ConfigMap",
    "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": INNER}},
    "data": {"config": json.dumps({"physicalCluster": {}})},
}


@pytest.mark.parametrize(
    ("outer", "says"),
    [
        ({"hivedscheduler": {"config": INNER}}, "the text at hivedscheduler.config"),
        ({"cluster": {}, "hivedscheduler": {"config": INNER}}, "the text at hivedscheduler.config"),
        (MAP, "the text at data['hived.yaml']"),
        (APPLIED, "the text at data.config"),
        ({"kind": "List", "items": [{"kind": "Pod"}, MAP]}, "at items[1].data['hived.yaml']"),
        (
            {"kind": "Secret", "data": {"c": base64.b64encode(INNER.encode()).decode()}},
            "the text (in base64) at data.c",
        ),
        ({"hived": {"physicalCluster": {}}}, "the mapping at hived"),
    ],
)
def test_a_document_with_the_configuration_in_it_is_refused_with_its_place(outer, says, tmp_path):
    path = tmp_path / "outer.yaml"
    path.write_text(json.dumps(outer))
    for source in (outer, path):
        with pytest.raises(ConfigError) as caught:
            HivedConfig.read(source)
        assert len(caught.value.problems) == 1
        assert str(caught.value).startswith("the configuration is ")
        assert says in str(caught.value)


def test_of_several_documents_the_one_with_the_configuration_is_named():
    text = f"kind: ServiceAccount\n---\n{json.dumps(MAP)}\n---\nkind: StatefulSet\n"
    with pytest.raises(ConfigError) as caught:
        HivedConfig.read(io.StringIO(text))
    assert "the configuration is the text at [1].data['hived.yaml']" in str(caught.value)


def test_a_document_that_has_no_configuration_says_what_is_missing():
    with pytest.raises(ConfigError, match="physicalCluster: is missing"):
        HivedConfig.read({"kind": "ConfigMap", "data": {"a": "b"}})


@pytest.mark.parametrize("with_c", [True, False])
def test_files_as_windows_writes_them_are_read(tmp_path, monkeypatch, with_c):
    if not with_c:
        monkeypatch.delattr(yaml, "CBaseLoader", raising=False)
    path = tmp_path / "windows.yaml"
    text = yaml.safe_dump(PLAIN).replace("\n", "\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert HivedConfig.read(path) == HivedConfig.read(PLAIN)


def test_a_chain_without_owner_and_a_pinned_id_without_owner_are_fine():
    inner = {"pinnedCellId": "inner"}
    cell = {"cellType": "N", "pinnedCellId": "outer", "cellChildren": [inner, None, {}, None]}
    document = cluster({"N": kind("G", 4, True)}, [cell], A=None, B={"pinnedCells": [inner]})
    spec = HivedConfig.read(document).spec
    assert spec.virtual_clusters == {"A": {}, "B": {}}
    assert spec.pinned_cells == {"B": {"inner": ("N", "G", 0)}}


TYPES = "physicalCluster.cellTypes"
CELLS = "physicalCluster.physicalCells"
VC1 = "virtualClusters.VC1"
BELOW = "cellChildren[2].cellChildren[0].cellChildren[1]"


@pytest.mark.parametrize(
    ("where", "value", "path", "says"),
    [
        ("physicalCluster", None, "physicalCluster", "is missing"),
        ("physicalCluster", [], "physicalCluster", "must be a mapping, not a list"),
        (TYPES, 3, TYPES, "must be a mapping, not 3"),
        (f"{TYPES}.V-2", None, f"{TYPES}.V-2.childCellType", "is missing"),
        (f"{TYPES}.V-2.childCellNumber", 0, None, "from 1 to 2**31, not 0"),
        (f"{TYPES}.V-2.childCellNumber", 10**400, None, "not a huge number"),
        (f"{TYPES}.V-2.childCellNumber", True, None, "not True"),
        (f"{TYPES}.V-2.childCellNumber", "08", None, "not '08'"),
        (f"{TYPES}.V-2.childCellNumber", 2.0, None, "not 2.0"),
        (f"{TYPES}.V-2.childCellType", ["V"], None, "must be a string, not a list"),
        (f"{TYPES}.V-2.childCellType", "V-4", None, "'V-2' > 'V-4' > 'V-2'"),
        (f"{TYPES}.V-2.childCellType", "V-2", None, "'V-2' > 'V-2'"),
        (f"{TYPES}.V-2.childCellNumbr", 2, None, "is childCellNumber meant?"),
        (f"{TYPES}.V-2.isNodeLevel", "maybe", None, "must be true or false"),
        (f"{TYPES}.V-8.isNodeLevel", True, f"{TYPES}.V-NODE.isNodeLevel", "'V-8' in it is a node"),
        (f"{TYPES}.C-NODE.isNodeLevel", False, f"{CELLS}[0].cellType", "below the node level"),
        (CELLS, None, CELLS, "lists no cell"),
        (CELLS, "x", CELLS, "must be a list, not 'x'"),
        (f"{CELLS}[1]", 7, None, "must be a mapping, not 7"),
        (f"{CELLS}[1].cellType", None, None, "is missing"),
        (f"{CELLS}[1].cellType", "X", None, "'X' is not among the cell types"),
        (f"{CELLS}[1].cellType", "V-8", None, "'V-8' is below the node level"),
        (f"{CELLS}[1].cellAddress", 1.5, None, "must be a string, not 1.5"),
        (f"{CELLS}[1].cellAddress", "a/b", None, "a slash separates levels"),
        (f"{CELLS}[1].cellAddress", "0.0.0.0", f"{CELLS}[1]", "device 0 of node '0.0.0.0' is in"),
        (f"{CELLS}[2].cellChildren[1].cellAddress", "8", f"{CELLS}[2]", "device 8 of node"),
        (f"{CELLS}[2].cellChildren[1].cellAddress", "x", None, "is its index, 0 to 2**31 - 1"),
        (f"{CELLS}[2].cellChildren[1].cellAddress", 2**31, None, "is its index"),
        (f"{CELLS}[2].cellChildren[1].cellType", "V", None, "are of type 'C'"),
        (f"{CELLS}[2].cellChildren[1].cellChildren", [{}], None, "a device and has no cells in it"),
        (f"{CELLS}[3].cellChildren", [{}], None, "1 cells are listed, a '3-P-NODE' has 3"),
        (f"{CELLS}[3].cellChildren[0]", "x", None, "must be a mapping"),
        (f"{CELLS}[3].{BELOW}.cellAddress", 1, f"{CELLS}[3].{BELOW}", "'1' is the address of"),
        (f"{CELLS}[3].{BELOW}.pinnedCellID", "p", None, "is pinnedCellId meant?"),
        (f"{CELLS}[4].cellAddress", "0.0.2.0", f"{CELLS}[6].cellChildren[0]", "device 0 of node"),
        (f"{CELLS}[8].pinnedCellId", "pin-V", None, f"the id of {CELLS}[7].cellChildren[0]"),
        (f"{CELLS}[8].pinnedCellId", {}, None, "must be a string, not a mapping"),
        (f"{CELLS}[8].cellAddress", "7", f"{CELLS}[8]", f"'7' is the address of {CELLS}[7]"),
        ("virtualClusters", [1], None, "must be a mapping, not a list"),
        (VC1, 1, None, "must be a mapping, not 1"),
        (f"{VC1}.virtualCells", {}, None, "must be a list, not a mapping"),
        (f"{VC1}.virtualCells[0]", "x", None, "must be a mapping, not 'x'"),
        (f"{VC1}.virtualCells[0].cellNumber", None, None, "is missing: an integer from 0"),
        (f"{VC1}.virtualCells[0].cellNumber", "-1", None, "not '-1'"),
        (f"{VC1}.virtualCells[0].cellType", None, None, "is missing"),
        (f"{VC1}.virtualCells[0].cellType", "2-V-NODE.V-NODE", None, "type '2-V-NODE'"),
        (f"{VC1}.virtualCells[0].cellType", "V-NODE.2-V-NODE", None, "is no part of 'V-NODE.V-8."),
        (f"{VC1}.virtualCells[0].cellNumber", 6, "virtualClusters", "level 'V-NODE': 2 cells too"),
        (f"{VC1}.virtualCells[2].cellNumber", 3, "virtualClusters", "1 cell too few"),
        (f"{VC1}.pinnedCells[0]", None, f"{VC1}.pinnedCells[0].pinnedCellId", "is missing"),
        (f"{VC1}.pinnedCells[0].pinnedCellId", "x", None, "no physical cell has the id 'x'"),
        (f"{VC1}.pinnedCells[0].pinnedCellId", "pin-V", f"{VC1}.pinnedCells[1].pinnedCellId", "is"),
        ("virtualClusters.VC2.pinnedCells", [{"pinnedCellId": "pin-I"}], None, "is owned by"),
    ],
)
def test_a_mistake_is_reported_at_its_place(where, value, path, says):
    expected, mistakes = where if path is None else path, problems_of(changed(where, value))
    assert [at for at, text in mistakes if says in text and at.startswith(expected)]


def changed(where, value):
    document = copy.deepcopy(DESIGN)
    *way, last = [
        int(key) if key.isdecimal() else key
        for key in where.replace("[", ".").replace("]", "").split(".")
    ]
    inner = document
    for key in way:
        inner = inner[key]
    inner[last] = value
    return document


def test_all_mistakes_are_reported_at_once():
    document = changed(f"{CELLS}[1].cellType", "X")
    document["physicalCluster"]["cellTypes"]["V-2"]["childCellNumber"] = "many"
    document["virtualClusters"]["VC1"]["pinnedCells"].append({"pinnedCellId": "lost"})
    document["virtualClusters"][""] = {}
    with pytest.raises(ConfigError) as caught:
        HivedConfig.read(document)
    assert [path for path, _ in caught.value.problems][:2] == [
        f"{TYPES}.V-2.childCellNumber",
        f"{CELLS}[1].cellType",
    ]
    mistakes = dict(caught.value.problems)
    assert mistakes[f"{VC1}.pinnedCells[3].pinnedCellId"] == "no physical cell has the id 'lost'"
    assert mistakes["virtualClusters['']"] == "must not be empty"
    assert str(caught.value).count("\n") == len(caught.value.problems) - 1


def test_pinned_cells_are_weighed_where_they_are():
    # One device of each of two nodes: two nodes are torn up although two devices fit into one.
    pins = [{"pinnedCellId": "a"}, {"pinnedCellId": "b"}]
    rack = {"cellType": "R", "cellChildren": [{"cellChildren": [pin, {}]} for pin in pins]}
    types = {"N": kind("G", 2, True), "R": kind("N", 2)}
    owned = {"A": {"pinnedCells": pins}, "B": {"virtualCells": [cells("R.N", 1)]}}
    document = cluster(types, [rack], **owned)
    with pytest.raises(ConfigError, match=r"level 'N': 1 cell too few .* beside 2 pinned cells"):
        HivedConfig.read(document)
    document["virtualClusters"]["B"]["virtualCells"] = [cells("R.N.G", 2)]
    assert HivedConfig.read(document).spec.virtual_clusters["B"] == {"R": {"G": 2}}
    document["physicalCluster"]["physicalCells"][0]["pinnedCellId"] = "outer"
    document["virtualClusters"]["B"] = {"pinnedCells": [{"pinnedCellId": "outer"}]}
    with pytest.raises(ConfigError, match="'a' is inside 'outer'"):
        HivedConfig.read(document)


def test_one_machine_may_be_two_nodes_of_one_chain_with_other_devices():
    def node(*devices):
        return {"cellType": "N", "cellAddress": "m", **nodes(*devices)}

    def read(*cells):
        types = {"N": kind("G", 2, True)}
        return HivedConfig.read(cluster(types, cells))

    assert read(node(8, 9), node(1, 0)).spec.chains["N"].leaf_indices == ((8, 9), (1, 0))
    assert read(node(8, 9), node(0, 1)).spec.chains["N"].leaf_indices == ((8, 9), (0, 1))
    with pytest.raises(ConfigError, match=r"device 9 of node 'm' is in .*Cells\[0\] already"):
        read(node(8, 9), node(0, 1), node(9, 10))
    with pytest.raises(ConfigError, match="device 0 of node 'm'"):
        read(node(0, 1), node(0, 3))


def test_default_names_of_nodes_in_two_chains_may_be_equal():
    types = {"N": kind("G", 2, True), "R": kind("N", 3)}
    physical = [{"cellType": "R"}, {"cellType": "N"}]
    config = HivedConfig.read(cluster(types, physical))
    assert config.spec.chains["R"].nodes == ("0", "1", "2")
    assert config.locate("1/0") == (("N", "G", 0),)
    assert config.locate("0/1/0") == (("R", "G", 2),)


def test_a_given_name_may_be_the_default_name_of_another_node():
    types = {"N": kind("G", 2, True), "R": kind("N", 2)}
    named = {"cellChildren": [{"cellAddress": 2}, {}]}
    for other in ({}, {"cellChildren": [None, {}]}):
        physical = [{"cellType": "R"} | named, {"cellType": "R"} | other]
        place = f"{CELLS}[1]" + ".cellChildren[0]" * bool(other)
        says = f"device 0 of node '2' is in {CELLS}[0].cellChildren[0] already"
        assert problems_of(cluster(types, physical)) == [(place, says)]


def test_one_name_may_be_written_in_two_ways_only_once():
    types = {"1": kind("G", 2, True), 1: kind("G", 4, True)}
    physical = [{"cellType": 1}]
    with pytest.raises(ConfigError, match="the name '1' is given twice"):
        HivedConfig.read(cluster(types, physical))


def test_sizes_have_limits():
    def read(number, levels=1, top="T0"):
        types = {f"T{i}": kind(f"T{i + 1}", number, i == levels - 1) for i in range(levels)}
        physical = [{"cellType": top}]
        return HivedConfig.read(cluster(types, physical))

    assert read(2**31).spec.chains["T0"].leaves == 2**31
    assert len(read(1, 15).spec.chains["T0"].levels) == 16
    with pytest.raises(ConfigError, match="T0: has more than 16 levels"):
        read(1, 16)
    with pytest.raises(ConfigError, match=f"have {2**54} leaves, at most 2"):
        read(2**27, 2)
    with pytest.raises(ConfigError, match="nodes, at most 2,097,152"):
        read(2048, 3)
    types = {"B": kind("C", 2**11), "C": kind("D", 2**11, True), "D": kind("E", 2)}
    leaves = [{"cellAddress": 7}, {"cellAddress": 8}]
    node = {"cellChildren": [{"cellChildren": leaves}] + [{}] * (2**11 - 1)}
    physical = [{"cellType": "B", "cellChildren": [node] + [{}] * (2**11 - 1)}]
    with pytest.raises(ConfigError, match="possible for up to 4,194,304"):
        HivedConfig.read(cluster(types, physical))


BOMB = "a: &a [x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n"
    for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the configuration is empty, or all of it is commented out"),
        ("- 1", "must be a mapping, not a list"),
        ("just text", "must be a mapping, not 'just text'"),
        ("{", "is no YAML: line "),
        ("a: [1,\nb: }", "is no YAML: line 2, column"),
        ("a: \x00", "is no YAML"),
        ("\ud800", "is no YAML"),
        ("a: 1\n---\nb: 2", "has 2 YAML documents"),
        ("a: *b", "a: no finished node has the anchor 'b'"),
        ("a: &a [*a]", "a[0]: no finished node has the anchor 'a'"),
        ("a: {b: 1, b: 2}", "a.b: the key is given twice"),
        ("x: [{a: 1}, {a: 1, 'a': 2}]", "x[1].a: the key is given twice"),
        ("? [1]\n: 2", "has a list as a key"),
        ("<<: 3", "<< must name mappings, not '3'"),
        ("a: !!python/object:os.system 1", "a: has the unknown tag"),
        ("a: " + "[" * 500, "is nested deeper than 100 levels"),
        (BOMB, "aliases stand for more than 1,000,000 parts"),
    ],
)
def test_texts_that_are_no_sound_yaml_are_refused(text, says):
    with pytest.raises(ConfigError) as caught:
        HivedConfig.read(io.StringIO(text))
    assert says in str(caught.value)


def test_unknown_keys_of_a_cell_that_is_not_read_are_named_in_the_same_pass():
    text = """
    physicalCluster:
      cellTypes: {NODE: {childCellType: GPU, childCellNumber: 8, isNodeLevel: true}}
      physicalCells:
      - {cellType: Z, cellAddres: a, cellChildren: [{adress: 0, cellChildren: [{x: 1}]}, 7]}
    virtualClusters: {}
    """
    cell = "physicalCluster.physicalCells[0]"
    assert [place for place, _ in problems_of(io.StringIO(text))] == [
        f"{cell}.cellType",
        f"{cell}.cellAddres",
        f"{cell}.cellChildren[0].adress",
        f"{cell}.cellChildren[0].cellChildren[0].x",
    ]


@pytest.mark.parametrize("text", ["---\n---\n{}", "{}\n---\n", "---\n# a\n---\n{}\n---\n...\n"])
def test_empty_yaml_documents_beside_the_configuration_say_nothing(text):
    problems = Problems()
    document = read_yaml(text.format("physicalCluster: 1"), problems)
    assert (document, problems.found) == ({"physicalCluster": "1"}, [])


def test_what_is_said_of_an_empty_configuration_can_be_written():
    with pytest.raises(ConfigError, match="write at least\n") as caught:
        HivedConfig.read(io.StringIO("# physicalCluster:\n#  cellTypes:\n"))
    written = str(caught.value).partition("write at least\n")[2]
    config = HivedConfig.read(io.StringIO(written))
    assert config.spec.chains["NODE"].nodes == ("name-of-a-node",)
    assert config.spec.virtual_clusters == {"name-of-a-tenant": {"NODE": {"NODE": 1}}}


def test_a_virtual_cluster_may_have_no_cell_of_a_type_that_it_lists():
    types = {"NODE": kind("GPU", 4, True), "RACK": kind("NODE", 2)}
    physical = [{"cellType": "RACK"}]
    owned = [cells("RACK", 0), cells("RACK.NODE", 1), cells("RACK", "0"), cells("RACK.NODE", 1)]
    tenants = {"A": {"virtualCells": owned}, "B": {"virtualCells": owned[:1]}}
    document = cluster(types, physical, **tenants)
    config = HivedConfig.read(document)
    assert [config.address("RACK", "NODE", i) for i in range(2)] == ["0/0", "0/1"]
    assert config.preassigned("A") == [("RACK", "NODE", None, 0), ("RACK", "NODE", None, 1)]
    assert config.preassigned("B") == []
    assert config.virtual_address("A", "RACK", "NODE", None, "GPU", 5) == "A/1/1"
    assert config.locate_virtual("A/1/1") == ("A", "RACK", "NODE", None, "GPU", 5)
    assert HivedConfig.read(config.document) == config
    scheduler = HivedScheduler(config)
    gang = {"name": "g", "members": [{"podNumber": 2, "leafCellNumber": 4}]}
    spec = {"virtualCluster": "A", "leafCellNumber": 4, "affinityGroup": gang}
    for pod in "pq":
        assert scheduler.schedule(pod, spec).outcome == "bind"
        scheduler.allocate(pod)
    assert len(scheduler.virtual_cluster("A")) == 2
    assert scheduler.virtual_cluster("B") == []
    assert scheduler.schedule("b", {"virtualCluster": "B", "leafCellNumber": 1}).outcome == "wait"
    HivedScheduler.from_bytes(scheduler.to_bytes()).check()


@pytest.mark.parametrize("source", [None, 3, [], io.BytesIO(b"\xff")])
def test_what_is_no_document_is_refused(source):
    with pytest.raises(ConfigError):
        HivedConfig.read(source)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        HivedConfig.read(tmp_path / "missing.yaml")


def test_a_mapping_that_shares_its_parts_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(
        "hivecore.interop.hived.configuration._physical_cells._MOST_SPELLED", 10_000
    )
    levels = 12
    types = {f"T{i}": kind(f"T{i + 1}", 4, i == 3) for i in range(levels)}
    cell = {}
    for _ in range(levels):
        cell = {"cellChildren": [cell] * 4}
    with pytest.raises(ConfigError, match="more than 10,000 cells are spelled out so far"):
        HivedConfig.read(cluster(types, [cell | {"cellType": "T0"}]))
    circle = {"cellType": "T0"}
    circle["cellChildren"] = [circle] * 4
    with pytest.raises(ConfigError, match="are of type 'T1'"):
        HivedConfig.read(cluster(types, [circle]) | {"c": circle})


def test_the_parser_without_c_reads_the_same(design, monkeypatch):
    monkeypatch.delattr(yaml, "CBaseLoader", raising=False)
    text = yaml.safe_dump(DESIGN, sort_keys=False)
    assert HivedConfig.read(io.StringIO(text)) == design
    with pytest.raises(ConfigError, match="is no YAML: line 2, column"):
        HivedConfig.read(io.StringIO("a: [1,\nb: }"))


def test_very_many_mistakes_are_cut_off():
    document = {"physicalCluster": {"physicalCells": [1] * 20_000}}
    mistakes = problems_of(document)
    assert len(mistakes) == 10_001
    assert mistakes[-1][1].startswith("more than 10,000 mistakes")


def test_an_integer_that_cannot_be_printed_is_a_mistake():
    with pytest.raises(ConfigError, match="not a huge number"):
        HivedConfig.read(changed(f"{CELLS}[0].cellAddress", 10**5000))


def test_wrong_questions_are_refused(design):
    with pytest.raises(KeyError, match="the levels of 'V-NODE'"):
        design.address("V-NODE", "P", 0)
    with pytest.raises(KeyError):
        design.addresses("X", "P")
    with pytest.raises(IndexError, match="has 2 cells"):
        design.address("V-NODE", "V-NODE", 2)
    with pytest.raises(IndexError):
        design.virtual_address("VC1", "V-NODE", "V-8", None, "V", 0)
    with pytest.raises(IndexError):
        design.virtual_address("VC1", "V-NODE", "V-NODE", None, "V-NODE", 2)
    assert design.locate("0.0.0.0/7") == design.locate("x") == design.locate("") == ()
    assert design.locate("/".join("0" * 40)) == ()


def test_values_that_compare_oddly_are_mistakes_too():
    odd = np.array([1, 2])
    types = {"N": kind("G", 2, True)}
    cells = [
        {"cellType": "N", "cellAddress": odd},
        {"cellType": "N", "cellChildren": odd},
        {"cellType": "N", "cellChildren": [{"cellAddress": odd}, {}]},
    ]
    assert len(problems_of(cluster(types, cells))) == 3
