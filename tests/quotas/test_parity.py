"""Minimums scaled as Koordinator scales them: what is read depends on what was read before."""

from random import Random

import pytest
from profiles import seeds

from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.reference.quotas import OriginalRuntimes
from hivecore.reference.quotas import QuotaTree as Twin

DIMENSIONS = ("cpu", "gpu")


class Both:
    """The kernel and its twin."""

    def __init__(self, **settings):
        self.tree = QuotaTree(parity=True, **settings)
        self.twin = OriginalRuntimes(Twin(**settings))

    def set_total(self, total):
        self.tree.set_total(total)
        self.twin.tree.set_total(total)

    def set_quota(self, quota):
        self.tree.set_quota(quota)
        self.twin.set_quota(quota)

    def submit(self, request):
        self.tree.submit(request)
        self.twin.tree.submit(request)

    def release(self, name):
        self.tree.release(name)
        self.twin.tree.release(name)

    def restart(self):
        self.tree = QuotaTree.from_bytes(self.tree.to_bytes())

    def read(self, name):
        assert self.tree.runtime(name) == self.twin.runtime(name)
        assert self.tree.status(name).min == self.twin.scaled[name]


def test_a_shrunken_cluster_scales_what_is_read_one_after_another():
    both = Both()
    both.set_total({"cpu": 200_000})
    both.set_quota(Quota("p", max={"cpu": 600_000}, min={"cpu": 300_000}))
    for name in "abc":
        limits = {"max": {"cpu": 600_000}, "min": {"cpu": 100_000}}
        both.set_quota(Quota(name, parent="p", **limits))
        both.submit(QuotaRequest(name, name, {"cpu": 200_000}))
    first = [both.tree.runtime(name)["cpu"] for name in "pabc"]
    second = [both.tree.runtime(name)["cpu"] for name in "pabc"]
    assert first == [200_000, 66_666, 66_666, 66_666]
    assert second == [200_000, 66_667, 66_667, 66_666]
    both.set_total({"cpu": 600_000})
    assert [both.tree.runtime(name)["cpu"] for name in "pabc"] == [600_000, *[200_000] * 3]


def amounts(rng, most, large):
    return {d: rng.randint(0, most) * large + rng.randint(0, 1) for d in DIMENSIONS}


def quota(rng, name, parent, least):
    most = {d: amount + rng.randint(0, 9 * amount) for d, amount in least.items()}
    flags = {"lends": rng.random() < 0.8, "scales": rng.random() < 0.8}
    return Quota(name, parent=parent, max=most, min=least, **flags)


@pytest.mark.parametrize("settings", [{}, {"guarantee": True}, {"scale_min": False}], ids=str)
@pytest.mark.parametrize("large", [1, 10**15 + 3])
def test_kernel_and_twin_read_the_same_one_after_another(settings, large):
    for seed in seeds(8):
        rng = Random(f"{seed} {large} {settings}")
        both = Both(**settings)
        names, owners = [], []

        for number in range(6):
            parent = rng.choice(["", *names])
            both.set_quota(quota(rng, f"q{number}", parent, amounts(rng, 6, large)))
            names.append(f"q{number}")
        for number in range(60):
            roll = rng.random()
            if roll < 0.2:
                both.set_total(amounts(rng, 20, large))
            elif roll < 0.35:
                before = both.tree.quota(rng.choice(names))
                least = amounts(rng, 6, large) if rng.random() < 0.5 else dict(before.min)
                both.set_quota(quota(rng, before.name, before.parent, least))
            elif roll < 0.55:
                owner = QuotaRequest(f"o{number}", rng.choice(names), amounts(rng, 6, large))
                both.submit(owner)
                owners.append(owner.name)
            elif roll < 0.6 and owners:
                both.release(owners.pop(rng.randrange(len(owners))))
            elif roll < 0.65:
                both.restart()
            elif roll < 0.7:
                both.tree.runtimes(DIMENSIONS)
                for name in both.tree.quotas:
                    both.twin.runtime(name)
            else:
                both.read(rng.choice(names))
            both.tree.check()
