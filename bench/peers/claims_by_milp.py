"""Whether a node can serve claims, asked of HiGHS: one 0/1 model with all rules, through SciPy."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

__all__ = ["solve"]


class _Model:
    def __init__(self) -> None:
        self.variables = 0
        self.entries: list[tuple[int, int, float]] = []
        self.least: list[float] = []
        self.most: list[float] = []

    def variable(self) -> int:
        self.variables += 1
        return self.variables - 1

    def row(self, terms: Sequence[tuple[int, float]], least: float, most: float) -> None:
        self.entries += [(len(self.least), column, value) for column, value in terms]
        self.least.append(least)
        self.most.append(most)

    def is_feasible(self, seconds: float) -> bool | None:
        rows, columns, values = zip(*self.entries, strict=True)
        shape = len(self.least), self.variables
        matrix = coo_array((values, (rows, columns)), shape=shape).tocsr()
        answer = milp(
            np.zeros(self.variables),
            integrality=np.ones(self.variables),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(matrix, self.least, self.most),
            options={"time_limit": seconds},
        )
        return {0: True, 2: False}.get(answer.status)


def solve(
    devices: Sequence[Any],
    sets: dict[str, Any],
    claim: Any,
    matches: Callable[[str, Any], bool],
    seconds: float,
) -> bool | None:
    """``None``: it did not end in time. Devices are free; no lists of them are asked for as All."""
    model, given = _Model(), {}
    most = 32
    for request in claim.requests:
        options = [(request.name, request.exactly)] if request.exactly else []
        options += [(f"{request.name}/{entry.name}", entry) for entry in request.first_available]
        chosen = []
        for name, terms in options:
            able = [
                i
                for i, of in enumerate(devices)
                if all(matches(selector.cel.expression, of) for selector in terms.selectors)
            ]
            is_all = terms.allocation_mode == "All"
            wanted = len(able) if is_all else terms.count or 1
            choice = model.variable()
            chosen.append((choice, 1.0))
            uses = {i: model.variable() for i in able}
            given[name] = (terms, uses)
            model.row([*((x, 1.0) for x in uses.values()), (choice, -float(wanted))], 0, 0)
        model.row(chosen, 1, 1)
    model.row([(x, 1.0) for _, uses in given.values() for x in uses.values()], 0, most)
    _add_devices(model, devices, sets, given)
    _add_constraints(model, devices, claim, given)
    return model.is_feasible(seconds)


def _add_devices(model: _Model, devices: Any, sets: Any, given: Any) -> None:
    counters: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for i, of in enumerate(devices):
        users = [(terms, uses[i]) for terms, uses in given.values() if i in uses]
        charged = [x for _, x in users]
        if not of.device.allow_multiple_allocations:
            model.row([(x, 1.0) for x in charged], 0, 1)
        elif of.device.consumes_counters:  # charged once, however many shares of it there are
            opened = model.variable()
            for x in charged:
                model.row([(x, 1.0), (opened, -1.0)], -1, 0)
            charged = [opened]
        for name, capacity in of.device.capacity.items():
            shares = []
            for terms, x in users:
                wanted = terms.capacity.requests.get(name) if terms.capacity else None
                shares.append((x, float(capacity.value if wanted is None else wanted)))
            model.row(shares, 0, float(capacity.value))
        for consumed in of.device.consumes_counters:
            for name, counter in consumed.counters.items():
                row = counters.setdefault((consumed.counter_set, name), [])
                row += [(x, float(counter.value)) for x in charged]
    for (name, counter), row in counters.items():
        model.row(row, 0, float(sets[name][counter]))


def _add_constraints(model: _Model, devices: Any, claim: Any, given: Any) -> None:
    for constraint in claim.constraints:
        attribute = constraint.match_attribute or constraint.distinct_attribute
        users: dict[Any, list[int]] = {}
        own: list[tuple[int, set[Any]]] = []
        for name, (_, uses) in given.items():
            names = {name, name.partition("/")[0]}
            if constraint.requests and not names & set(constraint.requests):
                continue
            for i, x in uses.items():
                of = devices[i].attribute(attribute)
                values = set() if of is None else {(of.kind, value) for value in of.values}
                own.append((x, values))
                for value in values:
                    users.setdefault(value, []).append(x)
        if constraint.match_attribute:
            values_of = {value: model.variable() for value in users}
            model.row([(x, 1.0) for x in values_of.values()], 0, 1)
            for x, values in own:
                model.row([(x, 1.0), *((values_of[v], -1.0) for v in values)], -1, 0)
        else:
            for x, values in own:
                if not values:
                    model.row([(x, 1.0)], 0, 0)
            for row in users.values():
                model.row([(x, 1.0) for x in row], 0, 1)
