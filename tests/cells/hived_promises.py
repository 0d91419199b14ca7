"""What HiveD promises about one small chain, found out by trying everything.

This knows the rules only and nothing of how cells are allocated: a cluster is its leaves, what the
tenants own, and the groups on the leaves with the virtual leaves that they hold. All the rest, such
as which cells are bound or free, follows from these here.

A request is a dict: vc, priority, sizes and, if it has them, pool, within, group_within, suggested
and most, as the group scheduler takes them.
"""

from functools import cache
from itertools import combinations


class Cluster:
    """What can be seen of a scheduler of one chain."""

    def __init__(self, scheduler, chain, pools, pins):
        fanouts, roots, self.node = chain
        self.widths = [1]
        for fanout in fanouts:
            self.widths.append(self.widths[-1] * fanout)
        self.leaves = range(roots * self.widths[-1])
        self.owned = [*pools, *((vc, 0, level, 1) for vc, _, level, _ in pins)]
        self.pins = {len(pools) + n: cell for n, (_, _, _, cell) in enumerate(pins)}
        self.groups = {handle: scheduler.group(handle) for handle in scheduler.handles()}
        self.bad = set(scheduler.bad_leaves(0).tolist())

    def cell(self, level, number):
        """The leaves of a cell."""
        return frozenset(range(number * self.widths[level], (number + 1) * self.widths[level]))

    def cells(self, level):
        """All cells of a level."""
        return [self.cell(level, n) for n in range(len(self.leaves) // self.widths[level])]

    # Owners

    def owners(self, preempting):
        """leaf -> the groups that run there, or that preempt there."""
        owners = {}
        for handle, group in self.groups.items():
            for leaf in (x for pod in group.pods for x in pod if group.preempting == preempting):
                owners.setdefault(leaf, []).append(handle)
        return owners

    def holders(self):
        """leaf -> (handle, virtual leaf) of the group that has a right to it."""
        holders = {}
        for handle, group in sorted(self.groups.items(), key=lambda item: item[1].preempting):
            for pod, virtual in zip(
                group.pods, group.virtual or [], strict=group.virtual is not None
            ):
                for leaf, held in zip(pod, virtual, strict=True):
                    holders[leaf] = handle, tuple(held)
        return holders

    def bound(self):
        """(pool, root) -> the number of its physical cell."""
        bound = {(pool, 0): cell for pool, cell in self.pins.items()}
        for leaf, (_, (pool, virtual)) in self.holders().items():
            width = self.widths[self.owned[pool][2]]
            cell = bound.setdefault((pool, virtual // width), leaf // width)
            assert cell == leaf // width, "one root is in two cells"
        return bound

    def free(self):
        """The leaves that are in no root's cell."""
        free = set(self.leaves)
        for (pool, _), number in self.bound().items():
            cell = self.cell(self.owned[pool][2], number)
            assert cell <= free, "two roots share a leaf"
            free -= cell
        return frozenset(free)

    def owed(self):
        """The levels of all roots that are not bound."""
        bound = self.bound()
        return [
            level
            for pool, (_, _, level, count) in enumerate(self.owned)
            for root in range(count)
            if (pool, root) not in bound
        ]

    # What is promised

    def can_serve(self, free, levels):
        """Whether there are disjoint cells of these levels among the free leaves."""

        @cache
        def fits(free, levels):
            if not levels:
                return True
            cells = (cell for cell in self.cells(levels[0]) if cell <= free)
            return any(fits(free - cell, levels[1:]) for cell in cells)

        return fits(frozenset(free), tuple(sorted(levels, reverse=True)))

    def check_owners(self):
        """No leaf has two owners, and no tenant holds what another one owns."""
        users, reservers = self.owners(False), self.owners(True)
        assert all(len(owners) == 1 for owners in [*users.values(), *reservers.values()])
        holders = self.holders()
        virtual = [held for _, held in holders.values()]
        assert len(set(virtual)) == len(virtual)
        for leaf, (handle, (pool, _)) in holders.items():
            assert self.groups[handle].vc == self.owned[pool][0]
            assert (reservers.get(leaf) or users[leaf]) == [handle]
        for leaf, (handle,) in reservers.items():
            user = self.groups[users[leaf][0]] if leaf in users else None
            if user is not None and user.virtual is not None:
                assert user.vc == self.groups[handle].vc
                assert user.priority < self.groups[handle].priority

    def check_safety(self):
        """Whatever the tenants do not use, all of them can get at once, bad hardware included."""
        assert self.can_serve(self.free(), self.owed())

    def check_doomed(self, doomed):
        """Of each level, the largest first, as few are doomed as can be."""
        free, owed = self.free() - self.bad, self.owed()
        served = []
        for level in sorted(set(owed), reverse=True):
            many = owed.count(level)
            while not self.can_serve(free, [*served, *[level] * many]):
                many -= 1
            served += [level] * many
            assert owed.count(level) - many == sum(n for at, _, n in doomed if at == level)
        assert {level for level, _, _ in doomed} <= set(owed)

    def may_evict(self, request, handle):
        """Whether HiveD lets a guaranteed request evict a group from a leaf."""
        group = self.groups[handle]
        if group.preempting or request["priority"] < 0:
            return False
        if group.virtual is None:
            return True
        mine = {held[0] for pod in group.virtual for held in pod} <= set(self.pools_of(request))
        return mine and group.vc == request["vc"] and group.priority < request["priority"]

    def pools_of(self, request):
        if (pin := request.get("pool", -1)) >= 0:
            return [pin]
        pools = enumerate(self.owned)
        return [n for n, owned in pools if owned[0] == request["vc"] and n not in self.pins]

    def check_plan(self, request, plan):
        """Only groups leave, or lose their guarantee, that may, and the plan needs them to."""
        users, reservers, holders = self.owners(False), self.owners(True), self.holders()
        leaves = [leaf for pod in plan.pods for leaf in pod]
        assert len(leaves) == len(set(leaves)) == sum(request["sizes"])
        assert self.bad.isdisjoint(leaves)
        assert set(plan.victims) == {users[leaf][0] for leaf in leaves if leaf in users}
        assert all(self.may_evict(request, handle) for handle in plan.victims)
        assert set(plan.cancels) == {reservers[leaf][0] for leaf in leaves if leaf in reservers}
        for handle in [*plan.cancels, *plan.downgrades]:
            group = self.groups[handle]
            assert group.vc == request["vc"] and group.priority < request["priority"]
            assert handle in plan.cancels or (group.lazy and group.virtual is not None)
        lost = {*plan.victims, *plan.cancels, *plan.downgrades}
        assert all(holders[leaf][0] in lost for leaf in leaves if leaf in holders)

    # Refusals

    def usable(self, request):
        """The leaves that a guaranteed request may have, if groups leave."""
        users, holders, suggested = self.owners(False), self.holders(), request.get("suggested")
        return {
            leaf
            for leaf in self.leaves
            if leaf not in self.bad
            and (suggested is None or leaf // self.widths[self.node] in suggested)
            and (
                leaf not in holders or self.groups[holders[leaf][0]].priority < request["priority"]
            )
            and (leaf not in users or self.may_evict(request, users[leaf][0]))
        }

    def can_place(self, request):
        """Whether a guaranteed group fits into cells of its tenant, wherever they are bound."""
        bound, usable = self.bound(), self.usable(request)
        pools = self.pools_of(request)
        mine = [(self.owned[pool][2], cell) for (pool, _), cell in bound.items() if pool in pools]
        owed = [
            self.owned[pool][2]
            for pool in pools
            for root in range(self.owned[pool][3])
            if (pool, root) not in bound
        ]
        most = len(request["sizes"])  # a root more would have no pod in it
        return any(
            self._can_pack([*mine, *homes], usable, request)
            for homes in self._new_homes(self.free(), sorted(owed, reverse=True), most)
        )

    def _new_homes(self, free, levels, most):
        """All sets of cells that some of these roots can be bound to; the rest stays safe."""
        everyone = self.owed()
        for many in range(min(most, len(levels)) + 1):
            for chosen in set(combinations(levels, many)):
                rest = list(everyone)
                for level in chosen:
                    rest.remove(level)
                for cells in self._disjoint(free, chosen, 0):
                    left = free.difference(*(self.cell(*each) for each in cells))
                    if self.can_serve(left, rest):
                        yield cells

    def _disjoint(self, free, levels, first):
        if not levels:
            yield []
            return
        level, *others = levels
        for number in range(first, len(self.leaves) // self.widths[level]):
            if (cell := self.cell(level, number)) <= free:
                after = number + 1 if others and others[0] == level else 0
                for rest in self._disjoint(free - cell, others, after):
                    yield [(level, number), *rest]

    def _can_pack(self, homes, usable, request):
        """Whether all pods fit into units of these roots, and all into a cell if they are to."""
        group_within, sizes = request.get("group_within", -1), request["sizes"]
        pods = list(zip(sizes, request.get("within") or [-1] * len(sizes), strict=True))
        pods.sort(reverse=True)
        rooms = [usable.intersection(self.cell(*home)) for home in homes]
        if group_within < 0:
            return self._pack(list(zip(homes, rooms, strict=True)), pods, request)
        for (level, number), room in zip(homes, rooms, strict=True):
            wide = min(level, group_within)
            many = self.widths[level] // self.widths[wide]
            for cell in range(number * many, (number + 1) * many):
                inside = room & self.cell(wide, cell)
                if self._pack([((wide, cell), inside)], pods, request):
                    return True
        return False

    def _pack(self, homes, pods, request):
        most, node = request.get("most"), self.node

        def cells_for(home, within):
            level = min(home[0], node, node if within < 0 else within)
            many = self.widths[home[0]] // self.widths[level]
            return [(level, n) for n in range(home[1] * many, (home[1] + 1) * many)]

        @cache
        def fits(pods, taken):
            """``taken``: (leaves that a pod has in a cell, the cell), for each pod placed."""
            if not pods:
                return True
            (size, within), *others = pods
            for home, room in homes:
                for level, number in cells_for(home, within):
                    more = tuple(sorted((*taken, (size, level, number))))
                    has_room = self._holds(room, home, (level, number), more, most)
                    if has_room and fits(tuple(others), more):
                        return True
            return False

        return fits(tuple(pods), ())

    def _holds(self, room, home, place, taken, most):
        """Whether the cells around a place, up to its home, still have room for what is in them."""
        level, number = place
        for up in range(level, home[0] + 1):
            around = number * self.widths[level] // self.widths[up]
            wanted = sum(
                size
                for size, below, cell in taken
                if below <= up and cell * self.widths[below] // self.widths[up] == around
            )
            if wanted > len(room & self.cell(up, around)):
                return False
        if most is None:
            return True
        on_node = number * self.widths[level] // self.widths[self.node]
        pods = sum(
            cell * self.widths[below] // self.widths[self.node] == on_node
            for _, below, cell in taken
        )
        return pods <= most[on_node]
