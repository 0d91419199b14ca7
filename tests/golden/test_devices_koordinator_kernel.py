"""Koordinator's own answers on random nodes and pods, given by the kernel of its mode.

Source: pkg/scheduler/plugins/deviceshare at commit a7a1b76b, compiled and run; the file names it.
The kernel knows what a filter and the reservation after it ask for; cases with other restrictions
are the twin's alone.
"""

import json
from pathlib import Path

import pytest
from koordinator_cases import charges_of, request_of, state_of
from koordinator_twin import POLICIES, KoordinatorPair, in_order

from hivecore.devices._koordinator import QUIRKS, raw_query
from hivecore.devices.feasibility import CODES

FILE = json.loads(Path(__file__).with_name("devices_koordinator.json").read_text("utf-8"))


def known(case):
    given = case.get("restriction", {})
    plain = set(given) <= {"numa", "preemptible", "reserving"} and not given.get("preemptible")
    return case["ask"] == "allocate" and plain


def filters(case):
    return "strategy" not in case and not case.get("restriction", {}).get("reserving")


def reserves(case):
    reserving = case.get("restriction", {}).get("reserving") or not case.get("planned")
    return "strategy" in case and reserving


CASES = [case for one in FILE["cases"] if known(case := FILE["nodes"][one["node"]] | one)]


def answered(case):
    """The code, the charges, and the score where the whole node is asked."""
    state = state_of(case)
    pair = KoordinatorPair(state.inventory, QUIRKS)
    for name, charges in state.owners.items():
        pair.charge(name, charges)
    pair.check()
    names = {strategy: i for i, strategy in enumerate(POLICIES.values())}
    policy = names[case.get("strategy", "least_allocated")]
    query = raw_query(pair.numbers, request_of(case))
    visible = pair.visible(case.get("restriction", {}).get("numa"))
    code, _, plan = pair.kernel.examine(query, policy, 0, visible)
    charges = None if plan is None else in_order(pair.named(plan.charges))
    score = pair.kernel.filter(query, policy)[3][0] if visible is None else None
    return CODES[code], charges, score


def in_words(failure):
    return "koordinator: " + failure[0].replace("_", " ")


FILTERED = [case for case in CASES if filters(case) and "failure" in case["answer"]]
RESERVED = [case for case in CASES if reserves(case)]


@pytest.mark.parametrize("case", range(len(FILTERED)))
def test_a_node_that_upstream_filters_out_is_refused_for_the_same_reason(case):
    assert answered(FILTERED[case])[0] == in_words(FILTERED[case]["answer"]["failure"])


@pytest.mark.parametrize("case", range(len(RESERVED)))
def test_a_reservation_is_upstream_s(case):
    code, charges, _ = answered(RESERVED[case])
    expected = RESERVED[case]["answer"]
    if "failure" in expected:
        assert code == in_words(expected["failure"])
    else:
        assert (code, charges) == ("fits", in_order(charges_of(expected["charges"])))


def test_scores_are_upstream_s():
    compared = 0
    for case in RESERVED:
        code, _, score = answered(case)
        reserving = case.get("restriction", {}).get("reserving")
        if code == "fits" and score is not None and "score" in case and not reserving:
            assert score == case["score"]
            compared += 1
    assert compared >= 20


def test_the_cases_are_many():
    assert len(FILTERED) >= 15
    assert len(RESERVED) >= 80
