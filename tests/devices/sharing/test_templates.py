"""Shares of GPUs as templates, and nodes whose GPUs are not shared: `DeviceCluster` and records."""

import pickle

import pytest
from devices.sharing.share_cases import ASCEND, GIB, npus, share

from hivecore.devices import (
    DeviceAllocation,
    DeviceCluster,
    DeviceNeed,
    NodeDevices,
    ShareTemplate,
    ShareTemplates,
)
from hivecore.errors import CertificateError, StaleDecisionError

HALF, QUARTER = ASCEND["vir04"], ASCEND["vir02"]
NODE = npus(2)


def code(cluster, request):
    feasibility = cluster.filter(request)
    return (
        feasibility.codes.tolist(),
        feasibility.reason(cluster.nodes[0]),
        feasibility.resolvable.tolist(),
    )


def test_only_the_nodes_with_a_template_serve_a_share():
    nodes = {"gpu": NodeDevices.uniform(gpus=8), "none": npus(2, {}), "npu": NODE}
    nodes["gpu"] = nodes["gpu"].replace(templates=ShareTemplates())
    cluster = DeviceCluster(nodes)
    feasibility = cluster.filter(share("p", QUARTER))
    assert feasibility.fitting == ("npu",)
    assert feasibility.reason("none") == "its GPUs have no template for such a share"
    assert feasibility.resolvable.tolist() == [False, False, True]
    decision = cluster.allocate(share("p", QUARTER), "npu")
    assert [allocation.template for allocation in cluster.allocations("p")] == ["vir02"]
    assert decision.placement == cluster.allocations("p")


def test_percents_are_no_template_in_bytes():
    cluster = DeviceCluster({"n": npus(2, {"half": {"npu_core": 4, "memory": 12 * GIB}})})
    assert not cluster.fits(share("p", {"npu_core": 4, "memory_ratio": 50}))
    assert cluster.fits(share("p", {"npu_core": 4, "memory": 12 * GIB}))


# --- states


def test_templates_are_recovered():
    cluster = DeviceCluster({"n": NODE})
    cluster.allocate(share("p", HALF), "n")
    (first,) = cluster.allocations("p")
    again = DeviceCluster({"n": NODE})
    again.recover("p", "n", [first])
    again.recover("p", "n", [first])
    before = again.to_bytes()
    with pytest.raises(ValueError, match="other devices"):
        again.recover("p", "n", [first.replace(template="vir02")])
    assert again.to_bytes() == before


def test_an_owner_keeps_its_template_when_the_node_s_templates_change():
    cluster = DeviceCluster({"n": NODE})
    cluster.allocate(share("p", HALF), "n")
    cluster.set_inventory("n", npus(2, {"other": HALF}))
    assert cluster.allocations("p")[0].template == "vir04"
    assert cluster.allocate(share("q", HALF), "n").placement[0].template == "other"
    cluster.check()


@pytest.mark.parametrize("rows", [{}, {"other": HALF}, {"vir04": HALF, "alias": HALF}])
def test_a_decision_for_another_template_is_stale(rows):
    cluster = DeviceCluster({"n": NODE})
    decision = cluster.schedule(share("p", HALF))
    loose = pickle.loads(pickle.dumps(decision))
    cluster.set_inventory("n", npus(2, rows))
    before = cluster.to_bytes()
    for first in (decision, loose):
        with pytest.raises(StaleDecisionError):
            cluster.commit(first)
    assert cluster.to_bytes() == before
    cluster.set_inventory("n", NODE.replace(model="other"))
    cluster.commit(decision)


def test_inventories_that_are_shared_in_other_ways_are_different():
    nodes = {
        "a": NODE,
        "b": NODE.replace(templates=None),
        "c": NODE.replace(shareable=False),
        "d": NODE.replace(templates=None, shareable=False),
        "e": npus(2, {"vir04": QUARTER}),
    }
    feasibility = DeviceCluster(nodes).filter(share("p", HALF))
    assert [feasibility.reason(name) for name in nodes] == [
        "",
        "",
        "its GPUs are not shared",
        "its GPUs are not shared",
        "its GPUs have no template for such a share",
    ]


# --- devices that are given, proofs, reasons


def test_designated_shares_need_the_very_template():
    cluster = DeviceCluster({"n": NODE})
    right = DeviceAllocation("gpu", 1, HALF, template="vir04")
    for wrong in (right.replace(template=""), right.replace(template="vir02")):
        decision = cluster.allocate(share("p", HALF), "n", designated=[wrong])
        assert decision.counts == (("designated", 1),)
    assert cluster.allocate(share("p", HALF), "n", designated=[right]).placement == (right,)


@pytest.mark.parametrize(
    ("inventory", "rule"),
    [
        (npus(2, {}), "the share is of no template"),
        (npus(2, {"other": HALF}), "has the template 'vir04'"),
        (NODE.replace(templates=None), "has the template 'vir04'"),
        (NODE.replace(shareable=False), "not shared"),
    ],
)
def test_a_proof_rejects_a_share_by_other_rules(inventory, rule):
    decision = DeviceCluster({"n": NODE}).schedule(share("p", HALF))
    decision.verify(NODE)
    with pytest.raises(CertificateError, match=rule):
        decision.verify(inventory)


def test_an_explanation_says_which_templates_there_are():
    cluster = DeviceCluster({"n": npus(1, {"vir02": QUARTER, "vir04": HALF})})
    why = cluster.explain(share("p", {"npu_core": 3, "memory": 5}))
    wanted = "1 gpu with memory 5, npu_core 3 wanted"
    assert why.shortages[0].detail == f"{wanted}, it has vir02, vir04"
    assert why.changes == ()
    cluster.set_inventory("n", npus(1, {}))
    why = cluster.explain(share("p", {"npu_core": 3, "memory": 5}))
    assert why.shortages[0].detail == f"{wanted}, it has no template"
    cluster.set_inventory("n", NODE.replace(shareable=False))
    why = cluster.explain(share("p", {"memory": 5}))
    assert why.shortages[0].detail == "1 gpu with memory 5 wanted, it gives whole ones"


def test_hints_and_preemption_know_templates():
    cluster = DeviceCluster({"n": npus(2)})
    odd = share("odd", HALF | {"npu_core": 3})
    assert cluster.numa_hints(odd, "n") == ()
    assert cluster.numa_hints(share("p", HALF), "n")
    for i in range(2):
        cluster.allocate(share(f"o{i}", HALF), "n")
    assert cluster.schedule(odd, preemptible=["o0", "o1"]).outcome == "wait"
    assert cluster.schedule(share("p", HALF), preemptible=["o0", "o1"]).victims == ("o0",)


# --- records


BAD = [
    (ValueError, "name", lambda: ShareTemplate("", HALF)),
    (TypeError, "name", lambda: ShareTemplate(3, HALF)),
    (ValueError, "amounts", lambda: ShareTemplate("t", {})),
    (ValueError, "amounts.*'share'", lambda: ShareTemplate("t", {"share": 1})),
    (ValueError, r"amounts\['npu_dvpp'\]=0", lambda: ShareTemplate("t", HALF | {"npu_dvpp": 0})),
    (TypeError, r"amounts\['npu_core'\]", lambda: ShareTemplate("t", {"npu_core": "4"})),
    (TypeError, "templates must hold ShareTemplate", lambda: ShareTemplates([HALF])),
    (TypeError, "templates must be a sequence", lambda: ShareTemplates(3)),
    (
        ValueError,
        "templates: two have the same name",
        lambda: ShareTemplates([ShareTemplate("t", HALF), ShareTemplate("t", QUARTER)]),
    ),
    (ValueError, "matched must be one of core", lambda: ShareTemplates((), ("gpu",))),
    (TypeError, "matched", lambda: ShareTemplates((), "npu_core")),
    (TypeError, "templates must be ShareTemplates", lambda: NodeDevices((), templates=[])),
    (TypeError, "shareable", lambda: NodeDevices((), shareable=1)),
    (TypeError, "template", lambda: DeviceAllocation("gpu", 0, HALF, template=None)),
    (ValueError, "template='t'", lambda: DeviceAllocation("rdma", 0, {}, template="t")),
]


@pytest.mark.parametrize(("error", "match", "make"), BAD)
def test_a_record_that_cannot_be_is_refused_by_the_argument(error, match, make):
    with pytest.raises(error, match=match) as raised:
        make()
    assert raised.type is error


def test_templates_are_values_whatever_the_order_they_are_given_in():
    rows = [ShareTemplate("b", HALF), ShareTemplate("a", QUARTER)]
    item, other = (
        ShareTemplates(rows, ["npu_cpu", "core"]),
        ShareTemplates(rows[::-1], ["core", "npu_cpu", "core"]),
    )
    assert item == other
    assert hash(item) == hash(other)
    assert pickle.loads(pickle.dumps(item)) == item
    need = DeviceNeed("gpu", 1, {"npu_core": 4, "npu_dvpp": 50, "npu_cpu": 4, "memory": 12 * GIB})
    assert rows[0].amounts == need.amounts
