"""Any history of events: what the coscheduler answers keeps every rule of an account of its own."""

import pickle
from random import Random

import pytest
from gangs.checker import IDLE
from gangs.histories import History, happen
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, seeds

from hivecore.errors import GangError
from hivecore.gangs import Coscheduler

WAYS = {
    "copy": Coscheduler.copy,
    "bytes": lambda gangs: Coscheduler.from_bytes(gangs.to_bytes()),
    "pickle": lambda gangs: pickle.loads(pickle.dumps(gangs)),
}


def refuse_events_out_of_place(history, name):
    """Every event that does not suit the state of a pod is an error and changes nothing."""
    gangs, now = history.gangs, history.now
    state = history.checker.pods[name]["state"]
    before = gangs.to_bytes()
    wrong = [lambda: gangs.create_pod(name, "a", now)]
    if state not in IDLE | {"trying"}:
        wrong += [lambda: gangs.assume_pod(name, now), lambda: gangs.fail_pod(name, now)]
    if state != "released":
        wrong += [lambda: gangs.bind_pod(name, now), lambda: gangs.fail_binding(name, now)]
    if state != "waiting":
        wrong.append(lambda: gangs.time_out_pod(name, now))
    if now:
        wrong.append(lambda: gangs.advance(now - 1))
    for call in wrong:
        with pytest.raises((GangError, ValueError)):
            call()
    assert gangs.to_bytes() == before


@given(st.randoms(use_true_random=False))
@examples(150, report_multiple_bugs=False)
def test_every_history_keeps_the_rules(rng):
    history = History(rng.random() < 0.5)
    for _ in range(rng.randint(1, 40)):
        happen(history, rng)
        history.compare()
        draw = rng.random()
        if draw < 0.05:
            history.go_on_with(WAYS[rng.choice(sorted(WAYS))](history.gangs))
        elif draw < 0.1 and history.checker.pods:
            refuse_events_out_of_place(history, rng.choice(sorted(history.checker.pods)))


@pytest.mark.parametrize("seed", seeds(60))
def test_every_pod_that_may_be_tried_is_tried_in_any_order_of_events(seed):
    rng = Random(seed)
    history = History(rng.random() < 0.8)
    for step in range(100):
        happen(history, rng)
        history.compare()
        if step % 25 == 24:
            history.go_on_with(Coscheduler.from_bytes(history.gangs.to_bytes()))
        if step % 10 == 9 and history.checker.pods:
            refuse_events_out_of_place(history, rng.choice(sorted(history.checker.pods)))
    history.advance(10**6)
