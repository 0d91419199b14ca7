"""Instances of MIG against all ways to place them, by hand."""

from collections import Counter
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.dra import DraCluster
from hivecore.dra.mig import (
    MIG_MODELS,
    MigInstance,
    mig_claim,
    mig_instances,
    mig_moves,
    mig_objects,
)


def cluster_of(model, cards, **given):
    cluster = DraCluster()
    cluster.update(*mig_objects("n1", model, cards, **given))
    return cluster


def holds(model, profiles, pinned=()):
    """Whether a card holds instances, of which those that come first are where they are."""
    table = MIG_MODELS[model]
    starts = [(pinned[i],) if i < len(pinned) else table[p][0] for i, p in enumerate(profiles)]
    if sum(profile.endswith("+me") for profile in profiles) > 1:
        return False
    takes = [table[profile][1] for profile in profiles]
    for chosen in product(*starts):
        slices = [
            slot for at, size in zip(chosen, takes, strict=True) for slot in range(at, at + size)
        ]
        if len(set(slices)) == len(slices):
            return True
    return False


def fewest_cards(model, profiles, cards):
    """How many cards must be opened for these instances; None: all are too few."""
    counts = [
        len(set(where))
        for where in product(range(cards), repeat=len(profiles))
        if all(
            holds(model, [p for p, at in zip(profiles, where, strict=True) if at == card])
            for card in range(cards)
        )
    ]
    return min(counts, default=None)


MODELS = st.sampled_from(sorted(MIG_MODELS))


@examples(60)
@given(st.data(), MODELS, st.integers(1, 3))
def test_instances_are_placed_if_they_can_be_and_on_the_fewest_cards(data, model, cards):
    table = sorted(MIG_MODELS[model])
    profiles = data.draw(st.lists(st.sampled_from(table), min_size=1, max_size=5))
    cluster = cluster_of(model, cards)
    claim = mig_claim("all", Counter(profiles))
    decision = cluster.schedule([claim], mode="fewest blocks")
    fewest = fewest_cards(model, profiles, cards)
    assert (decision is None) == (fewest is None)
    if decision is not None:
        cluster.verify(decision)
        assert decision.fewest == (fewest, fewest)
        cluster.commit(decision)
        here = mig_instances(cluster, "n1")
        assert sorted(entry.profile for of in here.values() for entry in of) == sorted(profiles)
        assert sum(map(bool, here.values())) == fewest


def stays(model, here, kept, wanted=()):
    """Whether a card holds its instances, of which some stay where they are, and others."""
    order = [*kept, *(entry for entry in here if entry not in kept)]
    profiles = [*(entry.profile for entry in order), *wanted]
    return holds(model, profiles, [entry.start for entry in kept])


@examples(60)
@given(st.data(), MODELS)
def test_the_fewest_instances_move(data, model):
    table = MIG_MODELS[model]
    cards = {"a": [], "b": []}
    for here in cards.values():
        for profile in data.draw(st.lists(st.sampled_from(sorted(table)), max_size=5)):
            start = data.draw(st.sampled_from(table[profile][0]))
            more = [*here, MigInstance(profile, start, f"user {len(here)}")]
            here += more[-1:] if stays(model, more, more) else []
    wanted = data.draw(st.sampled_from(sorted(table)))
    fewest = [
        len(here) - count
        for here in cards.values()
        for count in range(len(here) + 1)
        for kept in combinations(here, count)
        if stays(model, here, kept, [wanted])
    ]
    plan = mig_moves(model, cards, wanted)
    assert (plan is None) == (not fewest)
    if plan is not None:
        assert len(plan.moves) == min(fewest)
        assert all(entry.start != start for entry, start in plan.moves)
        moved = {entry: entry._replace(start=start) for entry, start in plan.moves}
        after = [moved.get(card, card) for card in cards[plan.card]]
        after.append(MigInstance(wanted, plan.start))
        assert stays(model, after, after)


def test_profiles_fill_a_card_as_often_as_the_guide_says():
    times = {"1g.5gb": 7, "1g.5gb+me": 1, "1g.10gb": 4, "2g.10gb": 3}
    times |= {"3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1}
    for profile, most in times.items():
        cluster = cluster_of("A100-40GB", 1)
        assert cluster.schedule([mig_claim("all", {profile: most})]) is not None
        assert cluster.schedule([mig_claim("more", {profile: most + 1})]) is None


def test_devices_of_another_driver_are_no_instances_of_these_cards():
    cluster = DraCluster()
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}]
    spec = {"driver": "gpu.nvidia.com", "nodeName": "n1", "pool": pool, "devices": devices}
    cluster.update({"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec})
    assert mig_instances(cluster, "n1") == {}


def test_instances_that_are_there_are_given_and_open_the_fewest_cards():
    present = {0: ["3g.20gb", "1g.5gb"], 1: ["2g.10gb", "1g.5gb", "1g.5gb"]}
    cluster = cluster_of("A100-40GB", 3, instances=present)
    decision = cluster.schedule([mig_claim("two", {"1g.5gb": 2})], mode="fewest blocks")
    assert {given.device.device[:5] for given in decision.devices} == {"gpu-1"}
    cluster.commit(decision)
    assert cluster.schedule([mig_claim("pair", {"3g.20gb": 1, "2g.10gb": 1})]) is not None
    assert cluster.schedule([mig_claim("large", {"4g.20gb": 1})]) is None
    assert [len(of) for of in mig_instances(cluster, "n1").values()] == [0, 2]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: mig_objects("n", "T4", 1), "model"),
        (lambda: mig_objects("n", "A30-24GB", 0), "cards"),
        (lambda: mig_objects("n", "A30-24GB", 1, {1: []}), "instances"),
        (lambda: mig_objects("n", "A30-24GB", 1, {0: ["4g.24gb", "1g.6gb"]}), r"instances\[0\]"),
        (lambda: mig_objects("n", "A30-24GB", 1, {0: ["8g"]}), "profile"),
        (lambda: mig_objects("", "A30-24GB", 1), "node"),
        (lambda: mig_claim("x", {"9g.5gb": 1}), "profile"),
        (lambda: mig_claim("x", {"1g.5gb": 0}), "profiles"),
        (lambda: mig_moves("A30-24GB", {}, "1g.5gb"), "wanted"),
        (lambda: mig_moves("A30-24GB", {"a": [("1g.6gb", 0)]}, "1g.6gb"), "cards"),
        (lambda: mig_moves("A30-24GB", {"a": [MigInstance("2g.12gb", 1)]}, "1g.6gb"), "cards: 2g"),
        (lambda: mig_moves("A30-24GB", {"a": [MigInstance("1g.5gb", 1)]}, "1g.6gb"), "cards"),
    ],
)
def test_wrong_arguments_are_refused_by_name(make, error):
    with pytest.raises((ValueError, TypeError), match=error):
        make()
