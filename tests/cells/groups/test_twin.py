"""Kernel == twin: the same operations on both, equal answers, an audit after every step."""

import numpy as np
from cells.groups.group_schedulers import BIND, PREEMPT, WAIT, SideBySide, Twin
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)
from profiles import examples


@st.composite
def chains(draw):
    """A forest of up to four levels and 32 leaves, with a node level."""
    fanouts = draw(st.lists(st.integers(1, 4), max_size=3))
    roots = draw(st.integers(1, max(1, 32 // int(np.prod(fanouts, dtype=int)))))
    return fanouts, min(roots, 6), draw(st.integers(0, len(fanouts)))


@st.composite
def clusters(draw):
    """Chains, tenants, pools and pins that can all be owned together."""
    forests = draw(st.lists(chains(), min_size=1, max_size=2))
    tenants = draw(st.integers(1, 3))
    pools: list[tuple[int, int, int, int]] = []
    pins: list[tuple[int, int, int, int]] = []

    def feasible(pools, pins):
        try:
            Twin(forests, tenants, pools, pins)
        except ValueError:
            return False
        return True

    for _ in range(draw(st.integers(1, 6))):
        vc, chain = draw(st.integers(0, tenants - 1)), draw(st.integers(0, len(forests) - 1))
        fanouts, roots, _ = forests[chain]
        level = draw(st.integers(0, len(fanouts)))
        cells = roots * int(np.prod(fanouts[level:], dtype=int))
        if draw(st.integers(0, 3)) == 0:
            wider = [*pins, (vc, chain, level, draw(st.integers(0, cells - 1)))]
            if feasible(pools, wider):
                pins = wider
        elif (vc, chain, level) not in [pool[:3] for pool in pools]:
            for count in range(draw(st.integers(1, cells)), 0, -1):
                wider = sorted([*pools, (vc, chain, level, count)])
                if feasible(wider, pins):
                    pools = wider
                    break
    return forests, tenants, pools, pins


class Machine(RuleBasedStateMachine):
    plans = Bundle("plans")

    @initialize(cluster=clusters())
    def build(self, cluster):
        self.both = SideBySide(*cluster)

    def some_request(self, data):
        draw, both = data.draw, self.both
        priority = draw(st.sampled_from([0, 0, 1, 2, 9, -1]), label="priority")
        owner = draw(st.integers(0, len(both.owned)), label="owner")
        if owner < len(both.owned):
            vc, chain = both.owned[owner][:2]
        else:
            vc = draw(st.integers(0, both.tenants - 1), label="vc")
            chain = draw(st.integers(0, len(both.chains) - 1), label="chain")
        pool = owner if len(both.pools) <= owner < len(both.owned) and priority >= 0 else -1
        largest = both.node_width(chain)
        size = st.integers(1, largest) | st.sampled_from([1, largest])
        equal = st.tuples(size, st.integers(1, 4)).map(lambda pods: [pods[0]] * pods[1])
        sizes = draw(st.lists(size, min_size=1, max_size=5) | equal, label="sizes")
        request = vc, chain, pool, priority, sizes
        return *request, *self.some_options(data, *request)

    def some_options(self, data, vc, chain, pool, priority, sizes):
        """Mostly none; else within, group_within, spread, merge, nodes, units, evictions, most."""
        draw = data.draw
        options = [
            "within",
            "group_within",
            "spread",
            "merge",
            "nodes",
            "units",
            "evictions",
            "most",
        ]
        names = st.sampled_from(options)
        first = names.map(lambda name: [name])
        some = draw(st.just([]) | first | st.lists(names), label="options")
        top, many = len(self.both.chains[chain][0]), len(sizes)
        within, group_within, suggested, units = None, -1, None, None
        if "within" in some:
            levels = st.integers(-1, top)
            within = draw(st.lists(levels, min_size=many, max_size=many), label="within")
        if "group_within" in some:
            group_within = draw(st.integers(0, top), label="group_within")
        if "nodes" in some:
            node = st.integers(0, self.both.nodes(chain) - 1)
            suggested = draw(st.lists(node, unique=True), label="suggested")
        numbers = len(self.both.twin.units(vc, chain, pool))
        if "units" in some and priority >= 0 and numbers:
            number = st.integers(0, numbers - 1)
            units = draw(st.lists(number, min_size=many, max_size=many), label="units")
        flags = "spread" in some, "merge" in some
        evictions = draw(st.integers(0, 2), label="evictions") if "evictions" in some else 0
        limits = st.lists(st.integers(0, 3), min_size=(of := self.both.nodes(chain)), max_size=of)
        most = draw(limits, label="most") if "most" in some else None
        return within, group_within, *flags, suggested, units, evictions, most

    def some_handle(self, data, such=lambda group: True):
        twin = self.both.twin
        live = [handle for handle in twin.handles() if such(twin.group(handle))]
        return data.draw(st.sampled_from(live) if live else st.integers(-1, 3), label="handle")

    @rule(target=plans, data=st.data())
    def schedule(self, data):
        plans = self.both.schedule(self.some_request(data))
        return multiple() if plans[0].outcome == WAIT else plans

    @rule(plans=plans, preempting=st.booleans(), lazy=st.booleans())
    def carry_out(self, plans, preempting, lazy):
        self.both.carry_out(plans, preempting, lazy)

    @rule(data=st.data(), lazy=st.booleans())
    def schedule_and_carry_out(self, data, lazy):
        self.both.schedule_and_carry_out(self.some_request(data), lazy)

    @precondition(lambda self: any(any(self.both.twin.group(h)[5] or []) for h in self.live()))
    @rule(data=st.data(), lazy=st.booleans())
    def press_on_a_group(self, data, lazy):
        """A request for what a guaranteed group holds, at an equal or a higher priority."""
        both = self.both
        handle = self.some_handle(data, lambda group: any(group[5] or []))
        vc, priority, _, _, pods, virtual, _ = both.twin.group(handle)
        pool = next(pool for pod in virtual for pool, _ in pod)
        chain = both.owned[pool][1]
        sizes = [len(pod) for pod in pods if pod] * data.draw(st.integers(1, 2), label="times")
        sizes = [min(size, both.node_width(chain)) for size in sizes]
        pool = pool if pool >= len(both.pools) else -1
        priority = min(1000, priority + data.draw(st.integers(0, 3), label="more"))
        request = vc, chain, pool, priority, sizes
        both.schedule_and_carry_out((*request, *self.some_options(data, *request)), lazy)

    @rule(data=st.data())
    def schedule_an_untouched_unit(self, data):
        """What is owned, healthy and not used by its owner can be had."""
        vc, chain, pool = self.some_request(data)[:3]
        empty = [unit for unit in self.both.twin.units(vc, chain, pool) if unit[4] == 0]
        if empty and not len(self.both.twin.bad_leaves(chain)):
            options = None, -1, False, False, None, None, 0, None
            request = vc, chain, pool, 0, [empty[0][2]], *options
            assert self.both.schedule(request)[0].outcome in (BIND, PREEMPT)

    @rule(data=st.data(), verb=st.sampled_from(["release", "release", "confirm", "cancel"]))
    def end_or_confirm(self, data, verb):
        handle = self.some_handle(data)
        self.both.every(lambda scheduler: getattr(scheduler, verb)(handle))

    def live(self):
        return self.both.twin.handles()

    @precondition(lambda self: any(self.both.twin.group(handle)[3] for handle in self.live()))
    @rule(data=st.data(), verb=st.sampled_from(["release victims", "confirm", "cancel"]))
    def go_on_with_a_preemption(self, data, verb):
        handle = self.some_handle(data, lambda group: group[3])
        if verb == "release victims":
            for victim in self.both.twin.victims(handle):
                self.both.every(lambda scheduler, victim=victim: scheduler.release(victim))
            verb = "confirm"
        self.both.every(lambda scheduler: getattr(scheduler, verb)(handle))

    @rule(data=st.data(), healthy=st.booleans())
    def set_health(self, data, healthy):
        first = data.draw(st.integers(0, self.both.leaves), label="first")
        end = data.draw(st.integers(first, min(first + 6, self.both.leaves)), label="end")
        self.both.every(lambda scheduler: scheduler.set_health(first, end, healthy))

    @rule(data=st.data())
    def judge_a_placement(self, data):
        handle = self.some_handle(data)
        counts = [self.both.nodes(chain) for chain in range(len(self.both.chains))]
        nodes = [st.none() | st.lists(st.integers(0, count - 1)) for count in counts]
        suggested = data.draw(st.none() | st.tuples(*nodes).map(list), label="suggested")
        self.both.every(lambda scheduler: scheduler.placement_good(handle, suggested))

    @rule(data=st.data(), lazy=st.booleans())
    def recover(self, data, lazy):
        draw, both = data.draw, self.both
        vc = draw(st.integers(0, both.tenants - 1), label="vc")
        leaf = st.integers(0, both.leaves - 1)
        leaves = draw(st.lists(leaf, max_size=6, unique=True), label="leaves")
        if leaves and draw(st.booleans(), label="together"):
            leaves = list(range(leaves[0], min(leaves[0] + len(leaves), both.leaves)))
        pools = []
        for leaf in leaves:
            own = [
                i
                for i, (tenant, chain, _, _) in enumerate(both.owned)
                if tenant == vc and both.first[chain] <= leaf < both.first[chain + 1]
            ]
            choices = own * 4 + [-1] if draw(st.booleans(), label="any") else own or [-1]
            pools.append(draw(st.sampled_from(choices), label="pool"))
        cut = draw(st.integers(0, len(leaves)), label="cut")
        priority = draw(st.sampled_from([-1, 0, 1, 2, 9]), label="priority")
        split = [leaves[:cut], leaves[cut:]], [pools[:cut], pools[cut:]]
        both.recover(vc, priority, lazy, *split, draw(st.booleans(), label="displace"))

    @rule(data=st.data(), keep=st.booleans())
    def what_if(self, data, keep):
        both = self.both
        originals, before = both.all, both.seen(both.twin)
        both.all = [scheduler.copy() for scheduler in originals]
        assert both.seen(both.twin) == before
        self.schedule_and_carry_out(data, True)
        self.end_or_confirm(data, "release")
        both.check()
        assert all(both.seen(scheduler) == before for scheduler in originals)
        if not keep:
            both.all = originals

    @rule()
    def restore_into_fresh_ones(self):
        self.both.restore()

    @rule()
    def recover_all_into_a_fresh_one(self):
        self.both.recover_all()

    @invariant()
    def everywhere_equal_and_sound(self):
        if hasattr(self, "both"):
            self.both.check()

    def teardown(self):
        if hasattr(self, "both"):
            self.both.end()


Machine.TestCase.settings = examples(50, stateful_step_count=30)
test_the_group_scheduler_does_what_its_twin_does = Machine.TestCase
