"""Answers of Koordinator's own device allocator on random nodes and pods.

Source: pkg/scheduler/plugins/deviceshare at commit a7a1b76b, compiled and run; the file names it.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from koordinator_cases import (
    answer_of,
    charges_of,
    request_of,
    reservations_of,
    restriction_of,
    state_of,
)

from hivecore.reference.devices.koordinator import (
    QUIRKS,
    Failure,
    allocate,
    allocate_reserved,
    designated,
    numa_hints,
    score_node,
)

FILE = json.loads(Path(__file__).with_name("devices_koordinator.json").read_text("utf-8"))
CASES = [FILE["nodes"][case["node"]] | case for case in FILE["cases"]]


def answered(case, quirks=QUIRKS):
    state, request = state_of(case), request_of(case)
    if case["ask"] == "reserved":
        return answer_of(allocate_reserved(state, request, reservations_of(case), quirks=quirks))
    if case["ask"] == "hints":
        hints = numa_hints(state, request, reservations_of(case), quirks)
        if isinstance(hints, Failure):
            return answer_of(hints)
        return {"hints": [[list(hint.numas), hint.preferred, hint.score] for hint in hints]}
    restriction = restriction_of(case)
    if case["ask"] == "designated":
        restriction = designated(state, charges_of(case["designated"]))
        if isinstance(restriction, Failure):
            return answer_of(restriction)
    return answer_of(allocate(state, request, restriction, case.get("strategy"), quirks))


@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_twin_answers_as_koordinator(case):
    assert answered(CASES[case]) == CASES[case]["answer"]


def test_the_twin_scores_nodes_as_koordinator():
    scored = [case for case in CASES if "score" in case]
    assert len(scored) > 100
    for case in scored:
        state, request = state_of(case), request_of(case)
        found = score_node(state, request, case["strategy"], restriction_of(case))
        assert found == case["score"]


def test_the_cases_are_of_all_kinds_and_a_third_of_them_is_served():
    kinds = Counter(case["ask"] for case in CASES)
    assert min(kinds[ask] for ask in ("allocate", "reserved", "hints", "designated")) >= 8
    assert sum("failure" not in case["answer"] for case in CASES) > len(CASES) // 3
    assert len({case["answer"]["failure"][0] for case in CASES if "failure" in case["answer"]}) > 9


@pytest.mark.parametrize("quirk", ["lowest_tier_first", "greedy_joint", "exclusivity_ignored"])
def test_the_cases_tell_a_defect_from_its_repair(quirk):
    assert any(answered(case, QUIRKS - {quirk}) != case["answer"] for case in CASES)
