"""Parents with so many children that the kernel brings those alone up to date that are read."""

from random import Random
from sys import getsizeof

import pytest

from hivecore.quotas import Quota, QuotaRequest, QuotaTree

CHILDREN = 200
DIMENSIONS = ("gpu", "memory")


class Wide:
    """A parent with many children, one of which has children itself, beside a small quota."""

    def __init__(self, rng, most, weights, **settings):
        self.rng, self.most, self.weights = rng, most, weights
        self.names = [f"c{i:03}" for i in range(CHILDREN)]
        everything = dict.fromkeys(DIMENSIONS, most * CHILDREN)
        self.parent = settings.pop("parent", "p")
        quotas = [Quota("p", max=everything), Quota("small", max=everything)]
        quotas += [Quota(name, parent=self.parent, **self.limits()) for name in self.names]
        quotas += [Quota(f"c000/{i}", parent="c000", max=everything) for i in range(3)]
        quotas.append(Quota("out", max=everything, outside=True))
        self.tree = QuotaTree(quotas, total=self.total(), **settings)
        self.owners = []
        self.number = 0

    def total(self):
        part = self.rng.choice([0.02, 0.2, 0.5, 2.0])
        return {name: int(self.most * CHILDREN * part) for name in DIMENSIONS}

    def amounts(self, most):
        return {name: self.rng.randint(0, most) for name in DIMENSIONS}

    def limits(self):
        most = {name: self.rng.randint(1, self.most) for name in DIMENSIONS}
        return {
            "max": most,
            "min": self.rng.choice([{}, {name: limit // 8 for name, limit in most.items()}]),
            "weight": dict.fromkeys(DIMENSIONS, self.rng.choice(self.weights)),
            "lends": self.rng.random() < 0.8,
        }

    def submit(self):
        quota = self.rng.choice([*self.names[1:], "c000/1", "small", "out"])
        self.number += 1
        self.owners.append(f"o{self.number}")
        request = QuotaRequest(self.owners[-1], quota, self.amounts(self.most))
        self.tree.submit(request)

    def start(self):
        if self.owners:
            name = self.rng.choice(self.owners)
            if not self.tree.members(name):
                decision = self.tree.schedule(name)
                if decision.outcome == "bind":
                    self.tree.commit(decision)

    def release(self):
        if self.owners:
            name = self.owners.pop(self.rng.randrange(len(self.owners)))
            self.tree.release(name)

    def change(self):
        name = self.rng.choice(self.names)
        self.tree.set_quota(Quota(name, parent=self.parent, **self.limits()))

    def come_and_go(self):
        """The children after it have other places."""
        self.tree.set_quota(Quota("c0005", parent=self.parent, **self.limits()))
        self.read()
        self.tree.remove("c0005")

    def resize(self):
        self.tree.set_total(self.total())

    def undone(self):
        owners = [*self.owners]
        with self.tree.trial():
            for _ in range(self.rng.randint(1, 4)):
                self.rng.choice([self.submit, self.start, self.release, self.undone, self.read])()
        self.owners = owners

    def read(self):
        """What is read here is what a copy says, which looks at all children."""
        for name in self.rng.sample(self.names, 3):
            assert self.tree.runtime(name) == self.tree.copy().runtime(name)

    def live(self, steps):
        often = [self.submit, self.submit, self.start, self.read, self.read, self.read]
        for _ in range(steps):
            action = [*often, self.release, self.undone]
            seldom = [self.change, self.resize, self.come_and_go]
            self.rng.choice(seldom if self.rng.random() < 0.02 else action)()


@pytest.mark.parametrize("parent", ["p", ""])
@pytest.mark.parametrize("weights", [(1,), (1, 2, 3), (0, 5, 7), (2**40, 3)])
@pytest.mark.parametrize("most", [8, 1000, 2**45])
def test_one_child_that_is_read_has_what_it_would_have_if_all_were(most, weights, parent):
    rng = Random(f"{most} {weights} {parent}")
    for settings in ({}, {"scale_min": False}, {"limit": "max"}):
        wide = Wide(rng, most, weights, parent=parent, **settings)
        for _ in range(60):
            wide.submit()
        wide.live(150)
        wide.tree.check()


def test_all_children_read_one_after_another_have_what_they_have_together():
    wide = Wide(Random(5), 1000, (1, 2, 3), scale_min=False)
    for _ in range(300):
        wide.submit()
        wide.read()
    assert getsizeof(wide.tree) > getsizeof(wide.tree.copy())  # which keeps no children yet
    of_gpu = [wide.tree.runtime(name)["gpu"] for name in wide.tree.quotas]
    assert of_gpu == wide.tree.copy().runtimes(["gpu"])[:, 0].tolist()
    assert of_gpu == wide.tree.runtimes(["gpu"])[:, 0].tolist()


@pytest.mark.parametrize("weights", [(1,), (1, 3, 5), tuple(range(1, 12))])
@pytest.mark.parametrize("most", [8, 1000])
def test_every_change_of_a_request_leaves_all_children_with_what_they_would_have(most, weights):
    wide = Wide(Random(f"{most} {weights}"), most, weights, scale_min=False)
    wide.most = max(1, most // 6)  # of an owner, so that few quotas ask for their maximum
    for _ in range(400):
        wide.submit()
    for step in range(80):
        if step % 8 == 0:
            # More than all minimums, less than all requests.
            wide.tree.set_total(dict.fromkeys(DIMENSIONS, most * wide.rng.randint(10, 25)))
        for _ in range(wide.rng.randint(1, 3)):
            wide.rng.choice([wide.submit, wide.release])()
        wide.read()
        wide.tree.check()  # compares all children with what a division among all of them says
