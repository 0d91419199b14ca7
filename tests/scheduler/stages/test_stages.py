"""The protocol `hivecore.decisions.Stage`: the same cases for every stage.

A case is a stage that can serve either of two requests, but not both.
"""

import copy
import pickle
from typing import Any, NamedTuple

import pytest

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
from hivecore.decisions import Change, Explanation, Refusal, Stage
from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.errors import StaleDecisionError
from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.topology import NetworkTopology, TopologyRequest


class Case(NamedTuple):
    stage: Any
    first: Any
    second: Any
    never: Any
    """A request that names something unknown; None: requests of this stage name nothing."""


def cells():
    chain = Chain(["gpu", "node"], fanouts=[4], roots=1)
    return Case(
        CellCluster(ClusterSpec({"c": chain}, {"A": {"c": {"node": 1}}})),
        AffinityGroup("first", "A", [(1, 3)]),
        AffinityGroup("second", "A", [(1, 2)]),
        AffinityGroup("third", "unknown", [(1, 1)]),
    )


def devices():
    return Case(
        DeviceCluster({"n0": NodeDevices.uniform(gpus=4)}),
        DeviceRequest("first", gpus=3),
        DeviceRequest("second", gpus=2),
        None,
    )


def quotas():
    entitled = Quota("first", max={"gpu": 4}, min={"gpu": 3}, parent="all")
    other = Quota("second", max={"gpu": 4}, parent="all")
    return Case(
        QuotaTree([Quota("all", max={"gpu": 4}), entitled, other], total={"gpu": 4}),
        QuotaRequest("first", "first", {"gpu": 3}),
        QuotaRequest("second", "second", {"gpu": 2}),
        QuotaRequest("third", "unknown", {"gpu": 1}),
    )


def raise_limit(tree, limit):
    """Only trees of quotas have limits."""
    if limit.limit == "total":
        tree.set_total({limit.dimension: limit.amount})
    else:
        quota = tree.quota(limit.quota)
        tree.set_quota(quota.replace(**{limit.limit: {limit.dimension: limit.amount}}))


def topology():
    network = NetworkTopology(["rack"], {"a": {"rack": "r"}, "b": {"rack": "r"}})
    network.set_slots([2, 2])
    return Case(
        network,
        TopologyRequest("first", 3),
        TopologyRequest("second", 2),
        TopologyRequest("third", 1, must="unknown"),
    )


CASES = [cells, devices, quotas, topology]
every_stage = pytest.mark.parametrize("make", CASES)


@every_stage
def test_a_stage_has_all_that_the_protocol_names(make):
    stage = make().stage
    for name in vars(Stage):
        if not name.startswith("_"):
            assert callable(getattr(stage, name)), name


@every_stage
def test_schedule_changes_nothing_and_commit_does(make):
    stage, first, second, _ = make()
    before = stage.to_bytes()
    assert stage.fits(first)
    decision = stage.schedule(first)
    assert (decision.request, decision.outcome, decision.victims) == (first, "bind", ())
    assert decision.refusal is None
    assert decision.placement
    assert stage.fits(second)
    assert stage.to_bytes() == before
    stage.commit(decision)
    stage.check()
    assert stage.to_bytes() != before
    assert not stage.fits(second)


@every_stage
def test_a_waiting_request_has_a_code_and_a_reason(make):
    stage, first, second, _ = make()
    stage.commit(stage.schedule(first))
    decision = stage.schedule(second)
    assert (decision.outcome, decision.placement, decision.victims) == ("wait", (), ())
    assert isinstance(decision.refusal, Refusal)
    assert all([decision.refusal.stage, decision.refusal.code, decision.refusal.reason])
    before = stage.to_bytes()
    with pytest.raises(ValueError, match="decision"):
        stage.commit(decision)
    assert stage.to_bytes() == before


@every_stage
def test_a_decision_is_stale_after_another_was_committed(make):
    stage, first, second, _ = make()
    decision, other = stage.schedule(first), stage.schedule(second)
    stage.commit(decision)
    before = stage.to_bytes()
    for _ in range(2):
        with pytest.raises(StaleDecisionError):
            stage.commit(other)
    with pytest.raises(StaleDecisionError):
        stage.commit(decision)
    assert stage.to_bytes() == before


@every_stage
def test_a_decision_does_not_change(make):
    decision = make().stage.schedule(make().first)
    for name in ("outcome", "victims", "request"):
        with pytest.raises(AttributeError):
            setattr(decision, name, None)
        with pytest.raises(AttributeError):
            delattr(decision, name)


@every_stage
def test_a_release_takes_all_back_and_unknown_names_are_key_errors(make):
    stage, first, second, never = make()
    before = stage.to_bytes()
    stage.commit(stage.schedule(first))
    stage.release(first.name)
    assert stage.to_bytes() == before
    for name in (first.name, second.name, "", "unknown"):
        with pytest.raises(KeyError):
            stage.release(name)
    for call in (stage.schedule, stage.fits, stage.explain) if never is not None else ():
        with pytest.raises(KeyError, match="unknown"):
            call(never)
    assert stage.to_bytes() == before


@every_stage
def test_every_change_that_is_named_admits_the_request(make):
    stage, first, second, _ = make()
    served = stage.explain(first)
    assert (served.outcome, served.reason, served.changes) == ("bind", "", ())
    stage.commit(stage.schedule(first))
    before = stage.to_bytes()
    explanation = stage.explain(second)
    assert isinstance(explanation, Explanation)
    assert explanation.outcome == "wait"
    assert explanation.reason
    assert explanation.cheapest == explanation.changes[0]
    for change in explanation.changes:
        assert isinstance(change, Change)
        branch = stage.copy()
        for name in change.owners:
            branch.release(name)
        for limit in change.limits:
            raise_limit(branch, limit)
        assert branch.fits(change.request)
    assert stage.to_bytes() == before


@every_stage
@pytest.mark.parametrize(
    "branched",
    [
        lambda stage: stage.copy(),
        copy.copy,
        copy.deepcopy,
        lambda stage: pickle.loads(pickle.dumps(stage)),
        lambda stage: type(stage).from_bytes(stage.to_bytes()),
    ],
)
def test_a_branch_is_equal_and_goes_its_own_way(make, branched):
    stage, first, second, _ = make()
    stage.commit(stage.schedule(first))
    branch = branched(stage)
    assert branch.to_bytes() == stage.to_bytes()
    branch.check()
    branch.release(first.name)
    branch.commit(branch.schedule(second))
    assert not stage.fits(second)
    stage.release(first.name)


@every_stage
def test_a_decision_by_value_is_committed_to_a_branch(make):
    stage, first, _, _ = make()
    decision = pickle.loads(pickle.dumps(stage.schedule(first)))
    branch = stage.copy()
    branch.commit(decision)
    stage.commit(decision)
    assert branch.to_bytes() == stage.to_bytes()
