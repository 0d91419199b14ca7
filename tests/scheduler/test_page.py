"""The tables of docs/subjects/scheduler.md agree with the code."""

import re
from pathlib import Path

import pytest

from hivecore.devices import DeviceRequest
from hivecore.dra import ResourceClaim
from hivecore.scheduler import Data, Job, Role, Scheduler, Where
from hivecore.scheduler.ledger.transitions import TRANSITIONS
from hivecore.scheduler.stages.composed import _KINDS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "subjects" / "scheduler.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="only the installed package is here")


def rows(heading):
    """The cells of the first table below a heading, without its head."""
    lines = PAGE.read_text("utf-8").partition(f"### {heading}\n")[2].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|")) + 2
    end = next(i for i, line in enumerate(lines) if i > start and not line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:end]]


def test_the_page_has_the_transitions_of_jobs():
    named = {
        name.strip("`"): (tuple(sources.split(", ")), target, event.strip("`"))
        for name, sources, target, event, _ in rows("States of a job")
    }
    assert named == {
        name: (step.sources, step.target or "gone", step.event)
        for name, step in TRANSITIONS.items()
    }


def test_the_reference_groups_all_methods_of_the_scheduler():
    text = (PAGE.parents[1] / "reference" / "scheduler.md").read_text("utf-8")
    named = re.findall(r"`\]\[hivecore\.scheduler\.Scheduler\.(\w+)\]", text)
    assert sorted(named) == [name for name in dir(Scheduler) if not name.startswith("_")]


FIELDS = {
    "must": {"where": Where(must="rack")},
    "multiple": {"where": Where(multiple={"rack": 2})},
    "per_domain": {"where": Where(per_domain={"rack": 2})},
    "balance": {"where": Where(balance="rack")},
    "leaf_type": {"where": Where(leaf_type="H100")},
    "pinned_cell": {"where": Where(pinned_cell="mine")},
    "within": {"where": Where(within="node")},
    "nodes": {"where": Where(nodes=["n0"])},
    "resources": {"roles": [Role("worker", resources={"cpu": 1})]},
    "devices": {"roles": [Role("worker", devices=DeviceRequest("any", gpus=1, nics=1))]},
    "joint": {
        "roles": [
            Role("worker", devices=DeviceRequest("any", gpus=1, nics=1, joint=("gpu", "rdma")))
        ]
    },
    "per_node": {"roles": [Role("worker", 2, per_node=1)]},
    "claims": {"roles": [Role("w", claims=[ResourceClaim("c")])]},
    "quota": {"quota": "other"},
    "prefer": {"where": Where(prefer="rack")},
    "stages": {"stages": (1, 1)},
    "data": {"data": Data("images", 1.0)},
}


def test_the_page_has_the_fields_that_each_part_reads():
    named = {}
    for fields, parts, without in rows("Constraints"):
        for field in re.findall(r"\.(\w+)`", fields):
            stages = {kind.name for kind in _KINDS if kind.name in parts}
            named[field] = stages, without.startswith("refused")
    assert {field: stages for field, (stages, _) in named.items()} == {
        field: {kind.name for kind in _KINDS if field in kind.honours} for field in FIELDS
    }
    assert FIELDS.keys() == frozenset().union(*(kind.honours for kind in _KINDS))
    for field, (_, is_refused) in named.items():
        job = Job("job", "team", **{"roles": 1, **FIELDS[field]})
        if is_refused:
            with pytest.raises(ValueError, match="no part"):
                Scheduler().submit(job, now=0.0)
        else:
            Scheduler().submit(job, now=0.0)
