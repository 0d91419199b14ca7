"""Whether a group waits or evicts, against all possible ways."""

import pytest
from cells.groups.group_schedulers import BIND, PREEMPT, Kernel
from cells.groups.group_ways import answers_among_bad_nodes
from profiles import seeds


@pytest.mark.parametrize("seed", seeds(50))
def test_a_group_waits_or_evicts_only_if_it_must(seed):
    """Among bad, excluded and half used nodes; and whose victims are gone is not asked for more."""
    for answer in answers_among_bad_nodes(Kernel, seed, 40):
        assert answer.waits_though_it_fits is False
        assert answer.evicts_though_it_fits is False
        assert answer.plan.outcome != PREEMPT or answer.again.outcome == BIND
