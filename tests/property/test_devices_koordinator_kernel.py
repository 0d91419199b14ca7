"""The kernel of mode "koordinator" answers as its twin, whatever has happened to a node before."""

import random

from hypothesis import given
from hypothesis import strategies as st
from koordinator_twin import (
    POLICIES,
    KoordinatorPair,
    crowded_machine,
    crowded_request,
    early_owners,
    flapped,
    koordinator_request,
    odd_machine,
    silent_machine,
    silent_request,
    wide_machine,
)
from profiles import examples

from hivecore.devices._koordinator import QUIRKS
from hivecore.reference.devices.koordinator import Failure


def history(seed, quirks, machine=odd_machine, request=koordinator_request):
    rng = random.Random(seed)
    pair = KoordinatorPair(machine(rng), quirks)
    for name, charges in early_owners(rng, pair.twin.inventory):
        pair.charge(name, charges)
        pair.check()
    for step in range(rng.randint(1, 12)):
        act = rng.random()
        if act < 0.15 and pair.owners:
            pair.release(rng.choice(sorted(pair.owners)))
        elif act < 0.25:
            pair.set_inventory(flapped(rng, pair.twin.inventory))
        elif act < 0.3:
            pair.set_inventory(machine(rng))
        else:
            asked = request(rng, pair.twin.inventory)
            numa = rng.choice((None, None, None, {0}, {0, 1}))
            gone = [name for name in sorted(pair.owners) if rng.random() < 0.1]
            expected, plan, query = pair.ask(asked, rng.choice(list(POLICIES)), numa, gone)
            if not isinstance(expected, Failure) and not gone:
                pair.commit(f"owner{step}", expected, plan, query)
        pair.check()


@examples(400)
@given(st.integers(0, 2**32))
def test_with_all_defects_every_answer_of_a_node_is_the_twin_s(seed):
    history(seed, QUIRKS)


@examples(400)
@given(st.integers(0, 2**32), st.sets(st.sampled_from(QUIRKS)))
def test_with_some_defects_every_answer_of_a_node_is_the_twin_s(seed, quirks):
    history(seed, quirks)


@examples(200)
@given(st.integers(0, 2**32))
def test_without_defects_every_answer_of_a_node_is_the_twin_s(seed):
    history(seed, ())


@examples(600)
@given(st.integers(0, 2**32), st.sets(st.sampled_from(QUIRKS)))
def test_what_devices_do_not_report_is_no_limit_until_it_is_charged_as_in_the_twin(seed, quirks):
    history(seed, quirks, silent_machine, silent_request)


@examples(600)
@given(st.integers(0, 2**32), st.sets(st.sampled_from(QUIRKS)))
def test_devices_on_the_same_switches_are_the_twin_s_which_tries_all_of_them(seed, quirks):
    history(seed, quirks - {"greedy_joint"}, crowded_machine, crowded_request)


@examples(30)
@given(st.integers(0, 2**32), st.sets(st.sampled_from(QUIRKS)))
def test_every_answer_of_a_node_of_many_devices_is_the_twin_s(seed, quirks):
    # The twin would try all sets of devices.
    history(seed, quirks | {"greedy_joint"}, wide_machine)
