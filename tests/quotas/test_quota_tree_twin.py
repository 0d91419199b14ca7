"""The tree of quotas: kernel and twin in the same lives."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, seeds
from quotas.lives import Life

from hivecore.quotas import QuotaTree

SETTINGS = [
    {},
    {"limit": "max"},
    {"scale_min": False},
    {"guarantee": True},
    {"limit": "max", "check_ancestors": False},
    {"check_ancestors": False},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("large", [1, 10**9 + 7, 2**56 + 1])
def test_kernel_and_twin_live_the_same_lives(settings, large):
    for seed in seeds(2):
        life = Life(large=large, **settings)
        rng = Random(f"{seed} {large} {settings}")
        for _ in range(120):
            life.step(rng)
            life.check()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_kernel_and_twin_take_back_the_same_from_the_same(settings):
    for seed in seeds(4):
        life = Life(large=1 if seed % 2 else 2**55 - 1, **settings)
        rng = Random(f"{seed} {settings}")
        life.crowd(rng)
        for _ in range(100):
            life.press(rng)
            life.check()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("large", [1, 2**56 + 1])
def test_trials_that_nest_are_undone_in_kernel_and_twin(settings, large):
    for seed in seeds(3):
        life = Life(large=large, **settings)
        rng = Random(f"{seed} {large} {settings}")
        step = life.step
        if seed % 2:
            life.crowd(rng)
            step = life.press
        for _ in range(120):
            life.step_or_trial(rng, step)
            life.check()
        while life.trials:
            life.end_a_trial(rng)
            life.check()


@examples(40)
@given(st.randoms(use_true_random=False), st.sampled_from(SETTINGS))
def test_any_life_is_the_same_in_kernel_and_twin(rng, settings):
    life = Life(**settings)
    for _ in range(40):
        life.step_or_trial(rng, life.step)
        life.check()
    while life.trials:
        life.end_a_trial(rng)
        life.check()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("large", [1, 2**44 + 1, 2**56 + 1])
@pytest.mark.parametrize("fractions", [0.02, 0.5])
def test_fractions_are_counted_exactly_from_any_moment_on(settings, large, fractions):
    for seed in seeds(2):
        life = Life(large=large, fractions=fractions, **settings)
        rng = Random(f"{seed} {large} {fractions} {settings}")
        step = life.step
        if seed % 2:
            life.crowd(rng)
        for _ in range(120):
            life.step_or_trial(rng, step)
            life.check()
            if rng.random() < 0.1 and not life.trials:
                life.tree = QuotaTree.from_bytes(life.tree.to_bytes())
        while life.trials:
            life.end_a_trial(rng)
            life.check()
