"""Quotas: dividing amounts, runtimes of trees, changes, lives of gangs, reclaim, memory, copies.

    python bench/bench_quotas.py [--smoke] [--out DIR]

fill       an amount divided among 10,000 children, with uniform, stepped and geometric requests;
           compared with a NumPy solution and the twin, which must agree
runtimes   all runtimes of 10,000 leaves in 100 groups, 4 dimensions, after a change of the total
           that invalidates all of them; compared with NumPy, all groups at once, which must agree
change     a random leaf of that tree gets a request in all dimensions, then its runtime is read,
           through Python
life       submit, schedule, commit and release of a gang at the end of a path of 4, through Python
reclaim    the victims, among 100,000 running owners, of a gang that is entitled to what others have
           borrowed; in 10,000 leaves and in 100
memory     bytes of a quota and of an owner, without its name
twin       runtimes, lives and reclaim in a small tree, compared with the twin, with equal answers
copy       of a tree with 10,000 quotas and 100,000 owners
trial      of the same tree: an owner is released and scheduled again, and both are undone; compared
           with the same changes of a copy
curve      change and runtimes from 10 to 100,000 quotas
wide       change where all leaves are children of one quota, with few and with many weights

Times are CPU time, the least of several rounds in which the contenders take turns, or p50 and p99.
Documents compare these with Koordinator's own figures from another run.
"""

import sys
from collections.abc import Callable
from random import Random
from time import process_time
from typing import Any

import numpy as np
from harness import command_line, cpu_seconds, percentiles, save, show, take_turns
from peers.quotas_numpy import water_fill as numpy_fill

from hivecore.quotas import Quota, QuotaRequest, QuotaTree, water_fill
from hivecore.reference.quotas import Claim
from hivecore.reference.quotas import QuotaTree as Twin
from hivecore.reference.quotas import water_fill as twin_fill

DIMENSIONS = ("cpu", "gpu", "memory", "rdma")
PER_LEAF = 1000


def requests_like(pattern: str, children: int, rng: np.random.Generator) -> Any:
    if pattern == "uniform":
        return rng.integers(1, PER_LEAF, children)
    if pattern == "staircase":
        return np.arange(children) % PER_LEAF + 1
    return (1.5 ** (np.arange(children) % 30)).astype(np.int64) + 1


def fill_figures(children: int, rounds: int) -> dict[str, Any]:
    results = {}
    for pattern in ("uniform", "staircase", "geometric"):
        rng = np.random.default_rng(1)
        requests = requests_like(pattern, children, rng)
        weights = rng.integers(1, 100, children)
        minimums = np.minimum(requests // 4, 50)
        amount = int(requests.sum() * 0.6)
        answers: dict[str, Any] = {}

        def kernel(amount=amount, given=(requests, minimums, weights), answers=answers) -> float:
            return cpu_seconds(lambda: answers.update(kernel=water_fill(amount, *given)))

        def arrays(amount=amount, given=(requests, minimums, weights), answers=answers) -> float:
            rows = [entry[None] for entry in given]
            present = np.array([amount])
            return cpu_seconds(lambda: answers.update(numpy=numpy_fill(present, *rows)[0]))

        def twin(amount=amount, given=(requests, minimums, weights), answers=answers) -> float:
            claims = [Claim(int(r), int(m), int(w)) for r, m, w in zip(*given, strict=True)]
            return cpu_seconds(lambda: answers.update(twin=twin_fill(amount, claims)[0]))

        results[pattern] = take_turns({"kernel": kernel, "numpy": arrays, "twin": twin}, rounds)
        assert answers["kernel"].tolist() == answers["numpy"].tolist() == answers["twin"]
    return {"children": children, "seconds": results}


class Forest:
    """Groups of leaves, each with an owner that asks for a random amount."""

    def __init__(self, groups: int, leaves: int, weights: int = 99) -> None:
        """
        :param weights: how many different weights leaves have.
        """
        rng = np.random.default_rng(2)
        shape = (groups, len(DIMENSIONS), leaves)
        self.requests = rng.integers(1, PER_LEAF, shape)
        self.minimums = rng.integers(0, PER_LEAF // 3, shape)
        self.weights = rng.integers(1, weights + 1, shape)
        quotas = []
        for group in range(groups):
            most = dict.fromkeys(DIMENSIONS, PER_LEAF * leaves)
            quotas.append(Quota(f"g{group:06}", max=most))
            for leaf in range(leaves):
                quotas.append(
                    Quota(
                        f"g{group:06}l{leaf:06}",
                        parent=f"g{group:06}",
                        max=dict.fromkeys(DIMENSIONS, PER_LEAF),
                        min=self._amounts(self.minimums, group, leaf),
                        weight=self._amounts(self.weights, group, leaf),
                    )
                )
        self.leaves = [quota.name for quota in quotas if quota.parent]
        self.tree = QuotaTree(quotas, total=self.total(0), scale_min=False)
        self.tree.submit_many(
            [
                QuotaRequest(
                    f"o{group}.{leaf}",
                    f"g{group:06}l{leaf:06}",
                    self._amounts(self.requests, group, leaf),
                )
                for group in range(groups)
                for leaf in range(leaves)
            ]
        )

    @staticmethod
    def _amounts(values: Any, group: int, leaf: int) -> dict[str, int]:
        return {d: int(values[group, i, leaf]) for i, d in enumerate(DIMENSIONS)}

    def total(self, number: int) -> dict[str, int]:
        """Return 60 % of all requests, or a hundredth less."""
        part = 0.6 if number % 2 == 0 else 0.594
        return {d: int(self.requests[:, i].sum() * part) for i, d in enumerate(DIMENSIONS)}

    def by_arrays(self, number: int) -> Any:
        """Return the leaves' runtimes, int64[groups, dimensions, leaves]."""
        groups, dimensions, leaves = self.requests.shape
        wanted = np.ascontiguousarray(self.requests.sum(2).T)
        total = np.array(list(self.total(number).values()))
        # A group has no minimum; its maximum is its weight, which is the same for all.
        nothing = np.zeros_like(wanted)
        weights = np.full_like(wanted, PER_LEAF * leaves)
        of_groups = numpy_fill(total, wanted, nothing, weights)
        rows = [entry.reshape(-1, leaves) for entry in (self.requests, self.minimums, self.weights)]
        result = numpy_fill(of_groups.T.reshape(-1).copy(), *rows)
        return result.reshape(groups, dimensions, leaves)


def runtimes_figures(forest: Forest, rounds: int) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    number = [0]

    def kernel() -> float:
        number[0] += 1
        forest.tree.set_total(forest.total(number[0]))
        return cpu_seconds(lambda: answers.update(kernel=forest.tree.runtimes(DIMENSIONS)))

    def arrays() -> float:
        return cpu_seconds(lambda: answers.update(numpy=forest.by_arrays(number[0])))

    seconds = take_turns({"kernel": kernel, "numpy": arrays}, rounds)
    groups, dimensions, leaves = forest.requests.shape
    ours = answers["kernel"].reshape(groups, leaves + 1, dimensions)[:, 1:].swapaxes(1, 2)
    assert (ours == answers["numpy"]).all()
    return {"leaves": groups * leaves, "groups": groups, "seconds": seconds}


def change_figures(forest: Forest, times: int) -> dict[str, float]:
    rng = Random(3)
    tree, taken = forest.tree, []
    for _ in range(times):
        leaf = rng.choice(forest.leaves)
        request = QuotaRequest("new", leaf, {d: rng.randint(1, 50) for d in DIMENSIONS})
        begin = process_time()
        tree.submit(request)
        tree.runtime(leaf)
        taken.append(process_time() - begin)
        tree.release("new")
        tree.runtime(leaf)
    return percentiles(taken)


def life_figures(times: int) -> dict[str, float]:
    most = {"gpu": 10**6, "memory": 10**6}
    quotas = [
        Quota("a", max=most),
        Quota("b", parent="a", max=most),
        Quota("c", parent="b", max=most),
        Quota("d", parent="c", max=most, min={"gpu": 8}),
    ]
    quotas += [Quota(f"{p}{i}", parent=p, max=most) for p in "abc" for i in range(20)]
    tree = QuotaTree(quotas, total=most)
    taken = []
    for number in range(times):
        request = QuotaRequest(f"gang{number}", "d", {"gpu": 8, "memory": 64}, count=4)
        begin = process_time()
        tree.submit(request)
        tree.commit(tree.schedule(request))
        tree.release(request.name)
        taken.append(process_time() - begin)
    return percentiles(taken)


def crowded(groups: int, leaves: int, owners: int) -> tuple[QuotaTree, list[str]]:
    """Return a tree whose total half of its leaves use up, and the names of the other half."""
    rng = Random(4)
    share = 4 * owners // (groups * leaves)
    quotas = []
    for group in range(groups):
        name = f"g{group:06}"
        most = dict.fromkeys(DIMENSIONS, 10 * share * leaves)
        quotas.append(Quota(name, max=most, min=dict.fromkeys(DIMENSIONS, share * leaves)))
        for leaf in range(leaves):
            quotas.append(
                Quota(
                    f"{name}l{leaf:06}",
                    parent=name,
                    max=dict.fromkeys(DIMENSIONS, 10 * share),
                    min=dict.fromkeys(DIMENSIONS, share),
                )
            )
    tree = QuotaTree(quotas, limit="max")
    names = [quota.name for quota in quotas if quota.parent]
    used = dict.fromkeys(DIMENSIONS, 0)
    for number in range(owners):
        amounts = {d: rng.randint(1, 7) for d in DIMENSIONS}
        quota = names[2 * number % len(names)]
        priority = rng.randint(0, 3)
        tree.recover(QuotaRequest(f"o{number}", quota, amounts, priority=priority), 1)
        used = {d: used[d] + amount for d, amount in amounts.items()}
    tree.set_total(used)
    return tree, names[1::2]


def reclaim_figures(tree: QuotaTree, entitled: list[str], times: int) -> dict[str, Any]:
    rng = Random(5)
    taken, victims = [], []
    for number in range(times):
        request = QuotaRequest(
            f"new{number}", rng.choice(entitled), dict.fromkeys(DIMENSIONS, 8), count=2
        )
        tree.submit(request)
        tree.runtime(request.quota)
        begin = process_time()
        decision = tree.schedule(request)
        seconds = process_time() - begin
        if decision.outcome == "preempt":
            taken.append(seconds)
            victims.append(len(decision.victims))
            for name in decision.victims:
                tree.evict(name)
            decision = tree.schedule(request)
        if decision.outcome == "bind":
            tree.commit(decision)
    return {"decisions": len(taken), "victims": float(np.mean(victims)), **percentiles(taken)}


def twin_figures(groups: int, leaves: int, owners: int, rounds: int) -> dict[str, Any]:
    """Return times of kernel and twin, whose answers must agree."""
    tree, entitled = crowded(groups, leaves, owners)
    twin = Twin(limit="max")
    for name in tree.quotas:
        twin.set_quota(tree.quota(name))
    for name in [f"o{number}" for number in range(owners)]:
        twin.submit(tree.request(name))
        twin.admit(name, 1)
    twin.set_total(tree.total())
    more = {d: 2 * amount for d, amount in tree.total().items()}
    late = QuotaRequest("late", entitled[0], dict.fromkeys(DIMENSIONS, 8), count=2)
    free = tree.copy()
    free.set_total(more)
    roomy = Twin(limit="max")
    roomy.__dict__.update(twin.__dict__, owners=dict(twin.owners), totals={"": more})

    def runtimes(answers: dict[str, Any]) -> dict[str, Callable[[], float]]:
        def kernel() -> float:
            free.set_total(more)
            return cpu_seconds(lambda: answers.update(kernel=free.runtimes(DIMENSIONS).tolist()))

        def twins() -> float:
            return cpu_seconds(lambda: answers.update(twin=roomy.figures().runtime))

        return {"kernel": kernel, "twin": twins}

    def life(answers: dict[str, Any]) -> dict[str, Callable[[], float]]:
        def kernel() -> float:
            def run() -> None:
                free.submit(late)
                decision = free.schedule(late)
                free.commit(decision)
                free.release("late")
                answers.update(kernel=decision.outcome)

            return cpu_seconds(run)

        def twins() -> float:
            def run() -> None:
                roomy.submit(late)
                answers.update(twin=roomy.decide({"late": 2}).outcome)
                roomy.admit("late", 2)
                roomy.release("late")

            return cpu_seconds(run)

        return {"kernel": kernel, "twin": twins}

    def reclaim(answers: dict[str, Any]) -> dict[str, Callable[[], float]]:
        tree.submit(late)
        twin.submit(late)

        def kernel() -> float:
            return cpu_seconds(lambda: answers.update(kernel=tree.schedule("late").victims))

        def twins() -> float:
            return cpu_seconds(lambda: answers.update(twin=twin.decide({"late": 2}).victims))

        return {"kernel": kernel, "twin": twins}

    results: dict[str, Any] = {"leaves": groups * leaves, "owners": owners}
    for what in (runtimes, life, reclaim):
        answers: dict[str, Any] = {}
        results[what.__name__] = take_turns(what(answers), rounds)
        ours, others = answers["kernel"], answers["twin"]
        if what is runtimes:
            others = [[others[name][d] for d in DIMENSIONS] for name in free.quotas]
        assert ours == others and ours, what.__name__
    return results


def memory_figures(quotas: int, owners: int) -> dict[str, float]:
    most = dict.fromkeys(DIMENSIONS, 10**9)
    tree = QuotaTree([Quota(f"q{i}", max=most) for i in range(quotas)], total=most)
    before = sys.getsizeof(tree)
    amounts = dict.fromkeys(DIMENSIONS, 1)
    tree.submit_many([QuotaRequest(f"o{i}", f"q{i % quotas}", amounts) for i in range(owners)])
    return {
        "quota and dimension": before / quotas / len(DIMENSIONS),
        "owner": (sys.getsizeof(tree) - before) / owners,
    }


def copy_figures(tree: QuotaTree, rounds: int) -> dict[str, float]:
    def copied() -> float:
        items = []
        seconds = cpu_seconds(lambda: items.append(tree.copy()))
        items.clear()
        return seconds

    return take_turns({"copy": copied}, rounds)


def trial_figures(tree: QuotaTree, rounds: int) -> dict[str, float]:
    name = tree.owners[0]
    request = tree.request(name)
    tree.runtimes(DIMENSIONS)

    def run(changed: QuotaTree) -> None:
        changed.release(name)
        assert changed.schedule(request).outcome == "bind"

    def trials() -> None:
        for _ in range(100):
            with tree.trial():
                run(tree)

    return take_turns(
        {
            "trial": lambda: cpu_seconds(trials) / 100,
            "copy": lambda: cpu_seconds(lambda: run(tree.copy())),
        },
        rounds,
    )


def curve_figures(sizes: list[int], times: int, rounds: int) -> list[dict[str, Any]]:
    results = []
    for leaves in sizes:
        groups = max(1, round(leaves**0.5))
        forest = Forest(groups, leaves // groups)
        runtimes = runtimes_figures(forest, rounds)
        results.append(
            {
                "leaves": runtimes["leaves"],
                "runtimes": runtimes["seconds"]["kernel"],
                "change": change_figures(forest, times),
            }
        )
    return results


def wide_figures(sizes: list[int], times: int) -> list[dict[str, Any]]:
    return [
        {
            "children": children,
            "weights": weights,
            "change": change_figures(Forest(1, children, weights), times),
        }
        for children in sizes
        for weights in (1, 5, 99)
    ]


def main() -> None:
    arguments = command_line(__doc__)
    smoke = arguments.smoke
    rounds, times = (2, 20) if smoke else (9, 2000)
    forest = Forest(4, 5) if smoke else Forest(100, 100)
    owners = 400 if smoke else 100_000
    wide, entitled = crowded(4, 5, owners) if smoke else crowded(100, 100, owners)
    copies, trials = copy_figures(wide, rounds), trial_figures(wide, rounds)
    narrow = crowded(2, 5, owners) if smoke else crowded(10, 10, owners)
    figures = {
        "fill": fill_figures(100 if smoke else 10_000, rounds),
        "runtimes": runtimes_figures(forest, rounds),
        "change": change_figures(forest, times),
        "life": life_figures(100 if smoke else 20_000),
        "reclaim": {
            "10,000 leaves": reclaim_figures(wide, entitled, times // 4),
            "100 leaves": reclaim_figures(*narrow, times // 4),
        },
        "twin": twin_figures(2, 3, 40, 1) if smoke else twin_figures(10, 10, 1000, 3),
        "memory": memory_figures(100 if smoke else 10_000, owners),
        "copy": copies,
        "trial": trials,
        "curve": curve_figures([10, 30] if smoke else [10, 100, 1000, 10_000, 100_000], times, 3),
        "wide": wide_figures([150] if smoke else [1000, 10_000, 40_000], times),
    }
    show(figures)
    save(arguments, "quotas", figures)


if __name__ == "__main__":
    main()
