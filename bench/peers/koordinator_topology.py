"""Koordinator's placement of a gang in a network: greedy, in a single layer.

It goes from the layer that must hold all pods to the deepest layer that has a domain with enough
slots, and fills that layer's domains one after the other, the fullest children first, until one
holds all pods. If none does, it tries no wider layer; it ignores the preferred layer.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise


class GreedyNetwork:
    """The domains of a network by numbers, level by level: all of it, the layers, the nodes.

    :param paths: of each node the names of its domains from wide to narrow, and its own name.
    """

    def __init__(self, paths: Sequence[tuple[str, ...]]) -> None:
        self.deepest = len(paths[0])
        self.names = [[""]]
        self.begins: list[list[int]] = []  # of the children of each domain
        self.parents = [[0]]
        groups = [list(paths)]
        for level in range(self.deepest):
            counts: list[int] = []
            names, parents, below = [], [], []
            for parent, group in enumerate(groups):
                children: dict[str, list[tuple[str, ...]]] = {}
                for path in group:
                    children.setdefault(path[level], []).append(path)
                counts.append(len(children))
                names += children
                parents += [parent] * len(children)
                below += children.values()
            self.begins.append([0, *accumulate(counts)])
            self.names.append(names)
            self.parents.append(parents)
            groups = below
        self.nodes = self.names[-1]

    def children(self, level: int, domain: int) -> range:
        return range(*self.begins[level][domain : domain + 2])

    def sums(self, of_nodes: Sequence[int], steps: Sequence[int]) -> list[list[int]]:
        """Of all domains, level by level, each cut off to a multiple of its level's step."""
        sums = [[count - count % steps[-1] for count in of_nodes]]
        for begins, step in zip(reversed(self.begins), steps[-2::-1], strict=True):
            below = sums[-1]
            totals = [sum(below[begin:end]) for begin, end in pairwise(begins)]
            sums.append([total - total % step for total in totals])
        return sums[::-1]

    def place(
        self,
        slots: Sequence[int],
        pods: int,
        *,
        must: int = 0,
        multiples: Mapping[int, int] | None = None,
        existing: Sequence[int] | None = None,
        cost: Sequence[int] | None = None,
        dear_first: bool = False,
    ) -> tuple[int, dict[str, int]] | None:
        """The level of the domain that holds all, and the pods of each node.

        :param slots: of each of `nodes`, as are `existing` pods to be near to, and `cost`.
        :param must: the level of which a domain has to hold all.
        :param multiples: of a level: each of its domains gets a multiple of so many pods.
        :param dear_first: of equals the one of the higher cost comes first, as in job preemption.
        """
        steps = [(multiples or {}).get(level, 1) for level in range(self.deepest + 1)]
        room = self.sums(slots, steps)
        ones = [1] * len(steps)
        nothing = [[0] * len(names) for names in self.names]
        near = nothing if existing is None else self.sums(existing, ones)
        signed = [-entry if dear_first else entry for entry in cost or ()]
        price = self.sums(signed, ones) if signed else nothing

        def tightness(level: int, domain: int) -> tuple[object, ...]:
            path = [domain]
            for above in range(level, 0, -1):
                path.append(self.parents[above][path[-1]])
            around = list(zip(range(level, -1, -1), path, strict=True))
            nearest, fewest = [-near[a][d] for a, d in around], [room[a][d] for a, d in around]
            return nearest, fewest, price[level][domain], self.names[level][domain]

        def fill(level: int, domain: int, wanted: int, placed: dict[str, int]) -> int:
            most = min(room[level][domain], wanted)
            most -= most % steps[level]
            if level == self.deepest:
                if most:
                    placed[self.nodes[domain]] = most
                return most
            to, has, costs, names = (of[level + 1] for of in (near, room, price, self.names))

            def fullness(child: int) -> tuple[object, ...]:
                return -to[child], -has[child], costs[child], names[child]

            done = 0
            for child in sorted(self.children(level, domain), key=fullness):
                if done == most:
                    break
                done += fill(level + 1, child, most - done, placed)
            return done

        level = must
        candidates = [i for i, count in enumerate(room[level]) if count >= pods]
        while level < self.deepest:
            deeper = [
                child
                for domain in candidates
                for child in self.children(level, domain)
                if room[level + 1][child] >= pods
            ]
            if not deeper:
                break
            level, candidates = level + 1, deeper
        for domain in sorted(candidates, key=lambda domain: tightness(level, domain)):
            placed: dict[str, int] = {}
            if fill(level, domain, pods, placed) == pods:
                return level, placed
        return None
