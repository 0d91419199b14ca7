"""The best placement of a gang by integer programs (scipy's HiGHS), one number after the other."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

Labels = Sequence[Sequence[str]]


def domains_of(labels: Labels) -> list[tuple[int, tuple[int, ...]]]:
    """(level, nodes) of each domain: level 0 is all, then the layers, the last ones are nodes."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for node, names in enumerate(labels):
        for level in range(len(names) + 1):
            groups.setdefault(tuple(names[:level]), []).append(node)
    results = [(len(path), tuple(nodes)) for path, nodes in groups.items()]
    return results + [(len(labels[0]) + 1, (node,)) for node in range(len(labels))]


def integer_program(labels: Labels, slots: Any, wish: Any) -> tuple[int, tuple[int, ...]] | None:
    """(level, numbers) of the best placement of a `reference.topology.Wish`, if there is one.

    The numbers are those that are compared, level by level each: domains that are touched, existing
    pods in them and in wider ones (negative), cost, slots of them, slots of wider ones.
    """
    domains = domains_of(labels)
    deepest = len(labels[0]) + 1
    narrowest = deepest if wish.narrowest is None else wish.narrowest
    for level in range(narrowest, wish.widest - 1, -1):
        result = _solve(domains, deepest, slots, wish, level)
        if result is not None:
            return level, result
    return None


def _solve(domains: Any, deepest: int, slots: Any, wish: Any, level: int) -> tuple[int, ...] | None:
    inside = [(at, nodes) for at, nodes in domains if at >= level]
    count = len(inside)
    pods = {
        nodes[0]: count + i
        for i, (at, nodes) in enumerate([entry for entry in inside if entry[0] == deepest])
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
    rows: list[Any] = []
    low: list[float] = []
    high: list[float] = []

    def constrain(terms: Any, least: float, most: float) -> None:
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
        # A touched domain has a pod.
        constrain([(place, -1), *((pods[n], 1) for n in nodes)], 0, np.inf)
        if place in segments:
            step = wish.multiples[at]
            constrain([(segments[place], step), *((pods[n], -1) for n in nodes)], 0, 0)
    for at, nodes in domains:
        if at in wish.limits:
            constrain([(pods[n], 1) for n in nodes], 0, wish.limits[at])
    levels = range(level, deepest + 1)

    def of(value: Any) -> list[Any]:
        return [
            [(p, value(nodes)) for p, (at, nodes) in enumerate(inside) if at == level]
            for level in levels
        ]

    def around(value: Any) -> list[Any]:
        return [
            [
                (
                    p,
                    value(
                        next(wider for of, wider in domains if of == number and nodes[0] in wider)
                    ),
                )
                for p, (at, nodes) in enumerate(inside)
                if at == level
            ]
            for number in range(level - 1, 0, -1)
        ]

    def near(nodes: tuple[int, ...]) -> Any:
        return -sum(wish.existing.get(node, 0) for node in nodes)

    def free(nodes: tuple[int, ...]) -> Any:
        return sum(slots[node] for node in nodes)

    goals = [
        *of(lambda nodes: 1),
        *of(near),
        *around(near),
        [(p, wish.cost.get(nodes[0], 0)) for p, (at, nodes) in enumerate(inside) if at == deepest],
        *of(free),
        *around(free),
    ]
    results = []
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
        results.append(round(answer.fun))
        constrain(terms, results[-1], results[-1])
    return tuple(results)
