"""What vendors' tools print of the links between GPUs, read as inventories."""

import re
from pathlib import Path

import pytest

from hivecore.devices import DeviceAllocation, DeviceCluster, DeviceRequest
from hivecore.interop.gpu_topology import devices_of_levels as levels
from hivecore.interop.gpu_topology import read_nvidia_topology as nvidia
from hivecore.interop.gpu_topology import read_rocm_topology as rocm

PRINTED = {
    path.stem: path.read_text("utf-8") for path in Path(__file__).parent.glob("topologies/*")
}
NVIDIA = sorted(PRINTED.keys() - {"mi60"})


def places(node, type="gpu", place="pcie"):
    return [getattr(device, place) for device in node.of_type(type)]


def chosen(node, used=(), **wanted):
    """The GPUs that a request gets while others are in use; none: it waits."""
    cluster = DeviceCluster({"n": node})
    held = [DeviceAllocation("gpu", minor, {"core": 100, "memory_ratio": 100}) for minor in used]
    cluster.recover("others", "n", held)
    decision = cluster.schedule(DeviceRequest("pod", **wanted))
    if decision.outcome == "bind":
        decision.verify(node, held)
    return [entry.minor for entry in decision.placement if entry.type == "gpu"]


# --- what is read


@pytest.mark.parametrize("name", NVIDIA)
def test_a_matrix_is_the_same_with_tabs_and_escapes_or_as_pasted_text(name):
    text = PRINTED[name]
    pasted = re.sub(r"\x1b\[\dm", "", text).expandtabs(8).replace("\n", " \r\n")
    matrix = pasted.partition("Legend")[0]
    assert nvidia(f"$ nvidia-smi topo -m\r\n{pasted}") == nvidia(text)
    assert nvidia(matrix).links == nvidia(text).links


def test_nvswitches_link_all_gpus_and_nics_tell_their_switches():
    node = nvidia(PRINTED["a100"])
    assert {count for row in node.links.counts for count in row} == {0, 12}
    assert node.links.joins(range(8)) == "all"
    assert places(node) == ["0", "0", "2", "2", "4", "4", "6", "6"]
    assert places(node, "rdma") == ["0", "2", "4", "6"]
    assert places(node, place="numa") == [3, 3, 1, 1, 7, 7, 5, 5]
    assert places(node, "rdma", "numa") == [3, 1, 7, 5]


def test_nics_are_named_as_the_legend_names_them():
    node = nvidia(PRINTED["h100"], gpu_memory=96 << 30, model="H100")
    assert places(node, "rdma", "uuid") == [f"mlx5_{i}" for i in range(4)]
    assert dict(node.devices[0].amounts)["memory"] == 96 << 30
    assert node.model == "H100"
    assert node.links.between([0, 1, 2]) == 18


def test_where_links_are_all_that_is_printed_no_switch_is_known():
    node = nvidia(PRINTED["h100-8"])
    assert places(node) == [None] * 8
    assert node.links.between(range(8)) == 28 * 18


def test_a_hybrid_cube_mesh_has_numa_nodes_by_its_processors():
    node = nvidia(PRINTED["v100"])
    assert [sum(row) for row in node.links.counts] == [6] * 8
    assert places(node) == ["0", "0", "2", "2", "4", "4", "6", "6"]
    assert places(node, place="numa") == [0] * 4 + [1] * 4
    assert places(node, "rdma", "numa") == [0, 1, 0, 1]
    assert node.links.joins(range(8)) == "island"
    assert node.links.joins([0, 1, 2, 3]) == "all"
    assert node.links.joins([0, 5]) is None


def test_of_xgmi_the_pairs_of_the_least_weight_are_linked():
    node = rocm(PRINTED["mi60"])
    assert node.links.counts == ((0, 1, 0, 1), (1, 0, 1, 0), (0, 1, 0, 1), (1, 0, 1, 0))
    assert places(node, place="numa") == [0, 0, 1, 1]
    pcie = PRINTED["mi60"].replace("XGMI", "PCIE")
    assert rocm(pcie).links.between(range(4)) == 0


def test_levels_are_a_square_or_a_mapping_of_numbers_or_names():
    square = [[0, 10, 40, 50], [10, 0, 40, 50], [40, 40, 0, 50], [50, 50, 50, 0]]
    named = {(0, 1): "PIX", (0, 2): "NODE", (2, 1): "NODE", (1, 2): "NODE"}
    named |= {(i, 3): "SYS" for i in range(3)}
    links = [[0, 0, 0, 4], [0] * 4, [0] * 4, [4, 0, 0, 0]]
    node = levels(square, links, [0, 0, 0, 1])
    assert levels(named, {(3, 0): 4}, iter([0, 0, 0, 1])) == node
    assert places(node) == ["0", "0", None, None]
    assert node.links.count(0, 3) == 4


# --- what is chosen by it


@pytest.mark.parametrize(
    ("name", "used", "wanted", "expected"),
    [
        # four that are linked each to each: a quad of the mesh, and none across
        ("v100", [], {"gpus": 4, "links": "all"}, [0, 1, 2, 3]),
        ("v100", [0], {"gpus": 4, "links": "all"}, [4, 5, 6, 7]),
        ("v100", [0, 7], {"gpus": 4, "links": "all"}, []),
        # those that reach each other over links may be across
        ("v100", [0, 7], {"gpus": 4, "links": "island"}, [1, 2, 3, 5]),
        # pairs of two links before pairs of one, then those on one switch
        ("v100", [], {"gpus": 2}, [2, 3]),
        ("v100", [3, 4, 6], {"gpus": 2}, [1, 2]),
        ("v100", [1, 2, 3, 4, 5, 6], {"gpus": 2}, [0, 7]),  # none is linked, none has to be
        ("v100", [1, 2, 3, 4, 5, 6], {"gpus": 2, "links": "island"}, []),
        # a bridge stays whole
        ("a100-bridges", [0], {"gpus": 1}, [1]),
        ("a100-bridges", [0], {"gpus": 2}, [2, 3]),
        ("a100-bridges", [0, 2], {"gpus": 2}, [1, 3]),
        ("a100-bridges", [], {"gpus": 4, "links": "island"}, []),
        ("a100-bridges", [], {"gpus": 1, "links": "all"}, [0]),
        # all are linked: switches and NUMA nodes decide
        ("a100", [0], {"gpus": 2, "links": "all"}, [2, 3]),
        ("a100", [], {"gpus": 4, "gpu_wishes": {"scope": "pcie"}}, []),
        ("h100", [1], {"gpus": 3, "links": "all"}, [0, 2, 3]),
        ("h100-8", [0], {"gpus": 4, "links": "all"}, [4, 5, 6, 7]),
        # no links at all
        ("l40s", [0], {"gpus": 2}, [2, 3]),
        ("l40s", [], {"gpus": 2, "links": "island"}, []),
        ("l40s", [], {"gpus": 2, "gpu_wishes": {"scope": "numa"}}, [0, 1]),
    ],
)
def test_gpus_are_chosen_by_what_was_printed(name, used, wanted, expected):
    assert chosen(nvidia(PRINTED[name]), used, **wanted) == expected


def test_a_ring_of_xgmi_links_neighbours():
    node = rocm(PRINTED["mi60"])
    assert chosen(node, [0], gpus=2, links="all") == [2, 3]
    assert chosen(node, [0], gpus=3, links="island") == [1, 2, 3]
    assert chosen(node, [], gpus=3, links="all") == []


BARE = """
        GPU0    GPU1    NIC0
GPU0     X      PIX     NODE
GPU1    PIX      X      NODE
NIC0    NODE    NODE     X
"""


def test_a_byte_order_mark_before_the_columns_is_no_part_of_them():
    printed = "GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n"
    assert nvidia("\ufeff" + printed) == nvidia(printed)


def test_without_columns_of_affinities_numa_nodes_are_unknown():
    node = nvidia(BARE)
    devices = [(device.type, device.numa, device.pcie) for device in node.devices]
    assert devices == [("gpu", None, "0"), ("gpu", None, "0"), ("rdma", None, None)]
    with_numa = nvidia(
        "\n".join(
            f"{line}  {end}"
            for line, end in zip(
                BARE.strip("\n").splitlines(), ("NUMA Affinity", "1", "1", ""), strict=True
            )
        )
    )
    assert [device.numa for device in with_numa.devices] == [1, 1, 1]
    alone = nvidia("\tGPU0\nGPU0\t X \n")
    assert [device.numa for device in alone.devices] == [None]


# --- what is no matrix

H100 = re.sub(r"\x1b\[\dm", "", PRINTED["h100"])
MI60 = PRINTED["mi60"]


@pytest.mark.parametrize(
    ("read", "given", "error"),
    [
        (nvidia, "", "text: no line begins with the columns GPU0, GPU1, ..."),
        (nvidia, "GPU0\t X \tNV6", "text: no line begins with the columns GPU0, GPU1, ..."),
        (
            nvidia,
            H100.replace("CPU Affinity", "xCPU Affinity"),
            "line 6: NIC0: 8 cells of 10 columns",
        ),
        (nvidia, H100.replace("GPU2\tNV6", "GPU9\tNV6"), "text: no row of GPU2"),
        (nvidia, H100.replace("NIC3\tSYS\tSYS", "NIC3\tSYS"), "line 9: NIC3: 7 cells of 8 columns"),
        (nvidia, H100.replace("N/A", "N/A 1"), "line 2: GPU0: 12 cells of 8 columns"),
        (nvidia, H100.replace("NV6", "NVX"), "GPU0 to GPU1: 'NVX' is none of PIX"),
        (nvidia, H100.replace("PIX", "FAR"), "GPU0 to NIC0: 'FAR' is none of PIX"),
        (
            nvidia,
            H100.replace("GPU0\t X \tNV6", "GPU0\t X \tNV4"),
            "GPU0 to GPU1 is 'NV4', but 'NV6'",
        ),
        (nvidia, H100.replace("GPU0\t X ", "GPU0\tPIX"), "GPU0 to GPU0: 'PIX' is none of"),
        (nvidia, H100.replace("GPU1\tGPU2", "GPU1\tGPU1"), "text: its columns are"),
        (nvidia, H100.replace("GPU3", "GPU4"), "text: its columns are"),
        (nvidia, H100.replace("\nNIC3", "\nGPU0\nNIC3"), "line 9: GPU0 has a row already"),
        (nvidia, b"GPU0", "text"),
        (rocm, "", "no table 'Link Type'"),
        (rocm, MI60.replace("GPU2   XGMI", "GPU2   PCIE"), "Link Type: 'XGMI' of GPU0 and GPU2"),
        (rocm, MI60.replace("XGMI", "WIRE"), "Link Type: 'WIRE' of GPU0 and GPU1"),
        (rocm, MI60.replace("GPU3   XGMI", "GPU3"), "Link Type: no row of GPU3 with 4 cells"),
        (
            rocm,
            MI60.replace("GPU0         GPU1", "GPU1         GPU0"),
            "Link Type: its columns are",
        ),
        (rocm, MI60.replace("30", "far"), "Weight: no number for GPU0 and GPU2"),
        (rocm, MI60[: MI60.index("XGMI") - 60], "Link Type"),
        (rocm, 7, "text"),
        (levels, ({(0, 2): 10, (1, 2): 10},), "levels: nothing of GPUs 0 and 1"),
        (levels, ({(0, 1): 15},), r"levels\[0, 1\]"),
        (levels, ({(0, 1): "NV2"},), r"levels\[0, 1\]"),
        (levels, ({(0, 1): 10, (1, 0): 20},), "levels: GPUs 0 and 1 have 10 and 20"),
        (levels, ([[0, 10], [10]],), r"levels: rows of \[2, 1\] numbers"),
        (levels, ({(0, 1): 10}, {(1, 2): 1}), "links: of GPU 2"),
        (levels, ({(0, 1): 10}, {(0, 1): -1}), r"links\[0, 1\]"),
        (levels, ({(0, 1): 10}, (), [0]), "numa: 1 of 2"),
        (levels, (5,), "levels"),
        (levels, ({(0, 1, 2): 10},), "levels"),
        (levels, ({"ab": 10},), "levels"),
    ],
)
def test_what_is_no_matrix_is_refused_with_its_place(read, given, error):
    with pytest.raises((ValueError, TypeError), match=error):
        read(*given) if isinstance(given, tuple) else read(given)
