"""HiveD's configuration against an expansion cell by cell, and against documents of any kind."""

import copy
import io
import json
from collections import Counter

import yaml
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.interop.hived import ConfigError, HivedConfig


def expand(document):
    """Each chain's addresses by level, the devices as (chain, node, index), and the pins."""
    types = document["physicalCluster"]["cellTypes"]
    cells, devices, pins = {}, [], {}

    def make(chain, kind, spec, number, prefix, node):
        address = prefix + str(spec.get("cellAddress", number))
        level = cells[chain].setdefault(kind, [])
        if "pinnedCellId" in spec:
            pins[spec["pinnedCellId"]] = (chain, kind, len(level))
        level.append(address)
        if kind not in types:
            devices.append((chain, node, int(address.split("/")[-1])))
            return
        if types[kind].get("isNodeLevel"):
            node = address.split("/")[-1]
            number = 0
        count = types[kind]["childCellNumber"]
        for i, child in enumerate(spec.get("cellChildren") or [{}] * count):
            child_kind = types[kind]["childCellType"]
            make(chain, child_kind, child or {}, number * count + i, address + "/", node)

    for position, spec in enumerate(document["physicalCluster"]["physicalCells"]):
        cells.setdefault(spec["cellType"], {})
        make(spec["cellType"], spec["cellType"], spec, position, "", None)
    return cells, devices, pins


def expand_virtual(document, pins):
    """The addresses of a virtual cluster's cells: vc -> list of (chain, type, pin, addresses)."""
    types = document["physicalCluster"]["cellTypes"]

    def make(kind, address, number, is_root, below):
        below.append(address)
        if kind in types:
            count = types[kind]["childCellNumber"]
            first = 0 if is_root else number * count
            for i in range(first, first + count):
                make(types[kind]["childCellType"], f"{address}/{i}", i, False, below)
        return below

    owned = {}
    for vc, spec in document["virtualClusters"].items():
        kinds = []
        for entry in spec.get("virtualCells", []):
            path = entry["cellType"].split(".")
            kinds += [(path[0], path[-1], None)] * entry["cellNumber"]
        for entry in spec.get("pinnedCells", []):
            chain, kind, _ = pins[entry["pinnedCellId"]]
            kinds.append((chain, kind, entry["pinnedCellId"]))
        owned[vc] = [
            (*kind, make(kind[1], f"{vc}/{k}", 0, True, [])) for k, kind in enumerate(kinds)
        ]
    return owned


@st.composite
def documents(draw):
    """Random configurations in which all fits."""
    types, tops = {}, []
    for line in range(draw(st.integers(1, 3))):
        depth = draw(st.integers(1, 4))
        node = draw(st.integers(1, depth))
        for level in range(1, depth + 1):
            types[f"{line}-{level}"] = {
                "childCellType": f"{line}-{level - 1}",
                "childCellNumber": draw(st.integers(1, 3)),
                **({"isNodeLevel": True} if level == node else {}),
            }
            if level >= node:
                tops.append(f"{line}-{level}")

    names = iter(range(10**6))
    pins, free = [], []

    def spell(kind, path, is_top, in_node):
        """A cell, spelled out as far as drawn; it is owned, torn up or left over."""
        spec = {"cellType": kind} if is_top or draw(st.booleans()) else {}
        is_node = kind in types and types[kind].get("isNodeLevel", False)
        if kind in types and (is_node or not in_node) and (is_node or draw(st.booleans())):
            spec["cellAddress"] = f"n{next(names)}"
        fate = draw(st.sampled_from(["own", "tear", "tear", "leave"]))
        if path is not None and fate == "own":
            if draw(st.booleans()):
                spec["pinnedCellId"] = f"pin{len(pins)}"
                pins.append(spec["pinnedCellId"])
            else:
                free.append(path)
            path = None
        elif fate == "leave":
            path = None
        # A node's name is always given, so what contains nodes is spelled out.
        has_nodes = kind in types and not is_node and not in_node
        if kind in types and (has_nodes or path is not None):
            child = types[kind]["childCellType"]
            count = types[kind]["childCellNumber"]
            below = None if path is None else f"{path}.{child}"
            spec["cellChildren"] = [
                spell(child, below, False, in_node or is_node) for _ in range(count)
            ]
            if child not in types and draw(st.booleans()):
                # Device indices in an order of their own; of other parents of this node nothing
                # is known here, so the numbers are new ones.
                for entry in spec["cellChildren"]:
                    entry["cellAddress"] = draw(st.sampled_from([str, int]))(1000 + next(names))
        return spec

    physical = [
        spell(kind, kind, True, False)
        for kind in draw(st.lists(st.sampled_from(tops), min_size=1, max_size=5))
    ]
    clusters = {vc: {"virtualCells": []} for vc in draw(st.sampled_from(["A", "AB", "ABC"]))}
    for path in draw(st.permutations(free)):
        entries = clusters[draw(st.sampled_from(sorted(clusters)))]["virtualCells"]
        if entries and entries[-1]["cellType"] == path:
            entries[-1]["cellNumber"] += 1
        else:
            entries.append({"cellType": path, "cellNumber": 1})
    for pin in pins:
        vc = clusters[draw(st.sampled_from(sorted(clusters)))]
        vc.setdefault("pinnedCells", []).append({"pinnedCellId": pin})
    return {
        "physicalCluster": {"cellTypes": types, "physicalCells": physical},
        "virtualClusters": clusters,
    }


@examples(80)
@given(documents())
def test_a_config_is_what_its_expansion_cell_by_cell_is(document):
    config = HivedConfig.read(document)
    cells, devices, pins = expand(document)
    assert {
        name: {level: config.addresses(name, level) for level in chain.levels}
        for name, chain in config.spec.chains.items()
    } == cells
    assert list(config.spec.chains) == list(cells)
    for name, levels in cells.items():
        for level, addresses in levels.items():
            for index, address in enumerate(addresses):
                assert config.address(name, level, index) == address
                assert config.locate(address) == ((name, level, index),)
    leaves = []
    for name, chain in config.spec.chains.items():
        per_node = chain.leaves_per_cell()[chain.levels.index(chain.node_level)]
        rows = chain.leaf_indices or [range(per_node)] * len(chain.nodes)
        leaves += [
            (name, node, index)
            for node, row in zip(chain.nodes, rows, strict=True)
            for index in row
        ]
    # Chains one after the other; the expansion goes through the list.
    order = {name: i for i, name in enumerate(cells)}
    assert leaves == sorted(devices, key=lambda device: order[device[0]])
    assert {
        pin: place for own in config.spec.pinned_cells.values() for pin, place in own.items()
    } == pins
    config.spec.check_feasible()


@examples(80)
@given(documents())
def test_virtual_addresses_are_those_of_the_expansion(document):
    config = HivedConfig.read(document)
    for vc, owned in expand_virtual(document, expand(document)[2]).items():
        assert [kind[:3] for kind in owned] == [kind[:3] for kind in config.preassigned(vc)]
        counts = {}
        for chain, level, pin, _ in config.preassigned(vc):
            if pin is None:
                counts.setdefault(chain, {}).setdefault(level, 0)
                counts[chain][level] += 1
        assert config.spec.virtual_clusters[vc] == counts
        for (chain, level, pin, rank), (_, _, _, addresses) in zip(
            config.preassigned(vc), owned, strict=True
        ):
            shape = config.spec.chains[chain]
            listed = []
            root = shape.levels.index(level)
            per_cell = shape.leaves_per_cell()
            for own in range(root + 1):
                inside = per_cell[root] // per_cell[own]
                for i in range(inside):
                    place = vc, chain, level, pin, shape.levels[own], rank * inside + i
                    address = config.virtual_address(*place)
                    assert config.locate_virtual(address) == place
                    listed.append(address)
            assert sorted(listed) == sorted(addresses)


@examples(40)
@given(documents(), st.booleans())
def test_yaml_text_gives_what_the_mapping_gives(document, flow):
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=flow)
    assert HivedConfig.read(io.StringIO(text)) == HivedConfig.read(document)


@examples(60)
@given(documents())
def test_the_document_of_a_config_reads_as_the_same_config(document):
    config = HivedConfig.read(document)
    assert HivedConfig.read(json.loads(json.dumps(config.document))) == config


@examples(60)
@given(documents(), st.data())
def test_one_cell_more_than_fits_is_refused(document, data):
    config = HivedConfig.read(document)
    vc = data.draw(st.sampled_from(sorted(document["virtualClusters"])))
    chain = data.draw(st.sampled_from(sorted(config.spec.chains)))
    path = ".".join(reversed(config.spec.chains[chain].levels))
    entry = {"cellType": path, "cellNumber": config.spec.chains[chain].leaves + 1}
    document["virtualClusters"][vc]["virtualCells"].append(entry)
    try:
        HivedConfig.read(document)
        raise AssertionError("it was read")
    except ConfigError as error:
        assert [path for path, _ in error.problems] == ["virtualClusters"]
        assert repr(chain) in error.problems[0][1]


def fits(document):
    """Whether the owned cells can be taken one by one beside the pinned ones, large ones first."""
    config = HivedConfig.read(document | {"virtualClusters": {}})
    pins = expand(document)[2]
    for name, chain in config.spec.chains.items():
        per_cell = chain.leaves_per_cell()
        taken, owned = set(), Counter()

        def take(level, index, per_cell=per_cell, taken=taken):
            size = per_cell[level]
            leaves = set(range(index * size, (index + 1) * size))
            if leaves & taken:
                return False
            taken |= leaves
            return True

        for spec in document["virtualClusters"].values():
            for entry in spec["virtualCells"]:
                path = entry["cellType"].split(".")
                if path[0] == name:
                    owned[chain.levels.index(path[-1])] += entry["cellNumber"]
            for entry in spec.get("pinnedCells", []):
                pinned_in, level, index = pins[entry["pinnedCellId"]]
                if pinned_in == name:
                    assert take(chain.levels.index(level), index)
        for level in sorted(owned, reverse=True):
            cells = range(chain.leaves // per_cell[level])
            for index in cells:
                if owned[level] and take(level, index):
                    owned[level] -= 1
            if owned[level]:
                return False
    return True


@examples(100)
@given(documents(), st.data())
def test_what_is_owned_is_refused_exactly_if_it_cannot_be_handed_out(document, data):
    chains = HivedConfig.read(document).spec.chains
    for _ in range(data.draw(st.integers(0, 3))):
        chain = data.draw(st.sampled_from(sorted(chains)))
        levels = chains[chain].levels
        level = data.draw(st.integers(0, len(levels) - 1))
        path = ".".join(reversed(levels[level:]))
        vc = data.draw(st.sampled_from(sorted(document["virtualClusters"])))
        entry = {"cellType": path, "cellNumber": data.draw(st.integers(1, 6))}
        document["virtualClusters"][vc]["virtualCells"].append(entry)
    try:
        HivedConfig.read(document)
        assert fits(document)
    except ConfigError:
        assert not fits(document)


WORDS = [
    *("physicalCluster", "virtualClusters", "cellTypes", "physicalCells", "childCellType"),
    *("childCellNumber", "isNodeLevel", "cellType", "cellAddress", "pinnedCellId", "cellChildren"),
    *("virtualCells", "cellNumber", "pinnedCells", "0-0", "0-1", "0-2", "0-1.0-0", "A", "pin0"),
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([-1, 0, 1, 2, 2**31, 2**64, 10**4000])
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=5)
)
keys = st.sampled_from(WORDS) | st.text(max_size=3) | st.none() | st.integers(0, 2)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@examples(150)
@given(values)
def test_any_document_gives_a_config_or_its_mistakes(document):
    try:
        assert isinstance(HivedConfig.read({"physicalCluster": document}), HivedConfig)
    except ConfigError as error:
        assert error.problems


@examples(100)
@given(documents(), st.data())
def test_a_config_with_a_part_replaced_gives_a_config_or_its_mistakes(document, data):
    document = copy.deepcopy(document)
    inner, key = document, data.draw(st.sampled_from(sorted(document)))
    while data.draw(st.integers(0, 4)) and isinstance(inner[key], (dict, list)) and inner[key]:
        inner = inner[key]
        places = sorted(inner) if isinstance(inner, dict) else range(len(inner))
        key = data.draw(st.sampled_from(places))
    inner[key] = data.draw(values | st.just(document) | st.just(inner))
    try:
        assert isinstance(HivedConfig.read(document), HivedConfig)
    except ConfigError as error:
        assert error.problems


@examples(150)
@given(st.text(alphabet="abc0:-[]{}&*!?|>'\"#%,~<. \n\t") | st.text())
def test_any_text_gives_a_config_or_its_mistakes(text):
    try:
        assert isinstance(HivedConfig.read(io.StringIO(text)), HivedConfig)
    except ConfigError as error:
        assert error.problems
