"""How claims choose devices: the first ones, or those on as few cards as possible."""

import random

import pytest
from profiles import seeds
from scheduler.lives import decided

from hivecore.dra import DraCluster
from hivecore.dra.mig import MIG_MODELS, mig_claim, mig_instances, mig_objects
from hivecore.scheduler import Job, Role, Scheduler, Start, recover
from hivecore.topology import NetworkTopology
from hivecore.verify import verify_actions

MODEL = "A30-24GB"
PROFILES = ("1g.6gb", "2g.12gb", "4g.24gb")
NODES = ("n0", "n1")
FEWEST = "fewest blocks"


def cards():
    claims = DraCluster()
    for node in NODES:
        claims.update(*mig_objects(node, MODEL, cards=2))
    return claims


def slices(profile, start):
    return {*range(start, start + MIG_MODELS[MODEL][profile][1])}


def taken(cluster, node):
    """The memory slices in use, by card."""
    return [
        set().union(*(slices(instance.profile, instance.start) for instance in instances))
        for _, instances in sorted(mig_instances(cluster, node).items())
    ]


def fewest(of_cards, profiles):
    """The fewest idle cards that some instances start to use, by trying all; None: no room."""

    def tries(now, left):
        if not left:
            yield sum(
                not before and bool(after) for before, after in zip(of_cards, now, strict=True)
            )
            return
        for card, used in enumerate(now):
            for start in MIG_MODELS[MODEL][left[0]][0]:
                if not used & slices(left[0], start):
                    after = [*now[:card], used | slices(left[0], start), *now[card + 1 :]]
                    yield from tries(after, left[1:])

    return min(tries(of_cards, profiles), default=None)


def begun(before, after):
    return sum(
        not old and bool(new)
        for node in NODES
        for old, new in zip(taken(before, node), taken(after, node), strict=True)
    )


def live(seed, mode):
    """For each start, how many cards it started to use, and the fewest on any node."""
    rng = random.Random(seed)
    scheduler = Scheduler(claims=cards(), claims_mode=mode)
    for number in range(25):
        running = [name for name in scheduler if scheduler.state(name) == "running"]
        if running and rng.random() < 0.4:
            scheduler.finish(rng.choice(running), float(number))
            continue
        profiles = rng.choices(PROFILES, (4, 2, 1), k=rng.randint(1, 2))
        counts = {profile: profiles.count(profile) for profile in profiles}
        job = Job(f"j{number}", "t", [Role("w", claims=[mig_claim("mig", counts)])])
        scheduler.submit(job, float(number))
        before = scheduler.copy()
        actions = scheduler.decide(float(number))
        scheduler.check()
        verify_actions(actions, {job.name: job}, before)
        least = [fewest(taken(before.claims, node), profiles) for node in NODES]
        least = [count for count in least if count is not None]
        if any(isinstance(action, Start) for action in actions):
            yield begun(before.claims, scheduler.claims), min(least)
        else:
            assert not least
            scheduler.cancel(job.name, float(number))


def test_every_start_begins_as_few_cards_as_possible():
    for seed in seeds(30):
        for cards_begun, least in live(seed, FEWEST):
            assert cards_begun == least


def test_the_first_devices_sometimes_begin_more():
    pairs = [pair for seed in seeds(30) for pair in live(seed, "first")]
    assert any(cards_begun > least for cards_begun, least in pairs)


def test_on_nodes_that_a_network_chooses_too():
    network = NetworkTopology([], {node: {} for node in NODES})
    for node in NODES:
        network.set_free(node, {"cpu": 4})
    scheduler = Scheduler(topology=network, claims=cards(), claims_mode=FEWEST)
    role = Role("w", 2, gpus=0, resources={"cpu": 2}, claims=[mig_claim("mig", {"1g.6gb": 2})])
    decided(scheduler, Job("j", "t", [role]))
    assert [len(used) for used in taken(scheduler.claims, "n0")] in ([4, 0], [0, 4])


def test_saved_states_copies_and_logs_keep_the_mode(path):
    scheduler = Scheduler(claims=cards(), claims_mode=FEWEST, log=path)
    decided(scheduler, Job("j", "t", [Role("w", claims=[mig_claim("mig", {"1g.6gb": 1})])]))
    scheduler.close()
    for again in (scheduler.copy(), Scheduler.from_bytes(scheduler.to_bytes()), recover(path)):
        assert again.claims_mode == FEWEST
    assert Scheduler(claims=cards()).claims_mode == Scheduler().claims_mode == "first"


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"claims": cards(), "claims_mode": "few"}, ValueError, "claims_mode: mode must be one of"),
        (
            {"claims": cards(), "claims_mode": "fewest x"},
            ValueError,
            "claims_mode: mode='fewest x'",
        ),
        ({"claims": cards(), "claims_mode": 3}, TypeError, "claims_mode must be"),
        ({"claims_mode": FEWEST}, ValueError, "claims_mode: there are no claims"),
    ],
)
def test_a_wrong_mode_is_named(arguments, error, says):
    with pytest.raises(error, match=says):
        Scheduler(**arguments)
