"""What the best placement of a gang is, found without kernel and twin."""

from itertools import product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp


class Parts:
    """The domains of a network of nodes with a label for each layer, in pre-order."""

    def __init__(self, labels):
        self.deepest = len(labels[0]) + 1
        self.domains = []  # (level, its nodes)

        def visit(level, nodes):
            self.domains.append((level, tuple(nodes)))
            if level == self.deepest:
                return
            groups = {}
            for node in nodes:
                key = node if level == self.deepest - 1 else labels[node][level]
                groups.setdefault(key, []).append(node)
            for group in groups.values():
                visit(level + 1, group)

        visit(0, list(range(len(labels))))


def objective(parts, slots, wish, level, counts):
    """The numbers that are compared of so many pods on nodes; None: a multiple is not kept."""
    touched = [
        (at, nodes)
        for at, nodes in parts.domains
        if at >= level and any(counts.get(node) for node in nodes)
    ]
    if level > 0 and len([1 for at, _ in touched if at == level]) != 1:
        return None
    if any(
        sum(counts.get(n, 0) for n in nodes) % wish.multiples.get(at, 1) for at, nodes in touched
    ):
        return None
    levels = range(level, parts.deepest + 1)
    return (
        *(sum(at == one for at, _ in touched) for one in levels),
        *(
            -sum(wish.existing.get(n, 0) for at, nodes in touched if at == one for n in nodes)
            for one in levels
        ),
        sum(wish.cost.get(node, 0) for node, count in counts.items() if count),
        *(sum(slots[n] for at, nodes in touched if at == one for n in nodes) for one in levels),
    )


def brute_force(labels, slots, wish):
    """(level, (node, pods) in order) of the best of all placements; None: there is none."""
    parts = Parts(labels)
    narrowest = parts.deepest if wish.narrowest is None else wish.narrowest
    for level in range(narrowest, wish.widest - 1, -1):
        best = None
        for place, (at, nodes) in enumerate(parts.domains):
            if at != level:
                continue
            for counts in product(*(range(min(slots[n], wish.pods) + 1) for n in nodes)):
                if sum(counts) != wish.pods:
                    continue
                by_node = dict(zip(nodes, counts, strict=True))
                cost = objective(parts, slots, wish, level, by_node)
                if cost is None:
                    continue
                key = cost, place, _order(parts, wish, level, nodes, by_node)
                if best is None or key < best[0]:
                    best = key, [(node, count) for node, count in by_node.items() if count]
        if best is not None:
            return level, best[1]
    return None


def _order(parts, wish, level, inside, counts):
    """Of equals: most pods in the first domain that has a multiple, or on the first node."""
    return tuple(
        -sum(counts[node] for node in nodes)
        for at, nodes in parts.domains
        if set(nodes) <= set(inside)
        and (at == parts.deepest or (at > level and wish.multiples.get(at, 1) > 1))
    )


def integer_program(labels, slots, wish):
    """(level, objective) by HiGHS, one number after the other; None: there is no placement."""
    parts = Parts(labels)
    narrowest = parts.deepest if wish.narrowest is None else wish.narrowest
    for level in range(narrowest, wish.widest - 1, -1):
        found = _solve(parts, slots, wish, level)
        if found is not None:
            return level, found
    return None


def _solve(parts, slots, wish, level):
    inside = [(at, nodes) for at, nodes in parts.domains if at >= level]
    count = len(inside)
    pods = {
        nodes[0]: count + i
        for i, (at, nodes) in enumerate([one for one in inside if one[0] == parts.deepest])
    }
    segments = {
        place: count + len(pods) + i
        for i, place in enumerate(
            [p for p, (at, _) in enumerate(inside) if wish.multiples.get(at, 1) > 1]
        )
    }
    size = count + len(pods) + len(segments)
    upper = np.concatenate(
        [np.ones(count), [slots[n] for n in pods], np.full(len(segments), wish.pods)]
    )
    rows, low, high = [], [], []

    def constrain(terms, least, most):
        row = np.zeros(size)
        for place, factor in terms:
            row[place] += factor
        rows.append(row)
        low.append(least)
        high.append(most)

    constrain([(place, 1) for place in pods.values()], wish.pods, wish.pods)
    constrain([(p, 1) for p, (at, _) in enumerate(inside) if at == level], 1, 1)
    for place, (at, nodes) in enumerate(inside):
        room = sum(min(slots[n], wish.pods) for n in nodes)
        constrain([(place, room), *((pods[n], -1) for n in nodes)], 0, np.inf)
        # Whoever is touched has a pod.
        constrain([(place, -1), *((pods[n], 1) for n in nodes)], 0, np.inf)
        if place in segments:
            step = wish.multiples[at]
            constrain([(segments[place], step), *((pods[n], -1) for n in nodes)], 0, 0)
    levels = range(level, parts.deepest + 1)

    def of(value):
        return [
            [(p, value(nodes)) for p, (at, nodes) in enumerate(inside) if at == one]
            for one in levels
        ]

    goals = [
        *of(lambda nodes: 1),
        *of(lambda nodes: -sum(wish.existing.get(n, 0) for n in nodes)),
        [
            (p, wish.cost.get(nodes[0], 0))
            for p, (at, nodes) in enumerate(inside)
            if at == parts.deepest
        ],
        *of(lambda nodes: sum(slots[n] for n in nodes)),
    ]
    found = []
    for terms in goals:
        goal = np.zeros(size)
        for place, factor in terms:
            goal[place] += factor
        answer = milp(
            goal,
            integrality=np.ones(size),
            bounds=Bounds(0, upper),
            constraints=LinearConstraint(np.array(rows), low, high),
        )
        if not answer.success:
            assert answer.status == 2, answer.message  # infeasible
            return None
        found.append(round(answer.fun))
        constrain(terms, found[-1], found[-1])
    return tuple(found)
