"""A node of the kernel and its twin, side by side."""

from hivecore import _devices
from hivecore.devices._numbers import Numbers, healthy_masks
from hivecore.devices.device import TYPES
from hivecore.reference.devices.choice import CODES, Choice, choose, choose_in
from hivecore.reference.devices.eligible import View
from hivecore.reference.devices.node_state import Charge, NodeState
from hivecore.reference.devices.score import node_score

POLICIES = ("bin-pack", "spread")


def as_charges(allocations):
    """What an owner has, in the twin's terms."""
    return tuple(
        Charge(
            allocation.type,
            allocation.minor,
            dict(allocation.amounts),
            allocation.function and allocation.function.bus_id,
            allocation.exclusive,
            allocation.template,
        )
        for allocation in allocations
    )


def preferred(result, request):
    """How many needs a choice puts in their preferred scopes."""
    order = ("device", "pcie", "numa", "socket", "node")
    return sum(
        need.preferred_scope is not None
        and result.scopes[need.type] <= order.index(need.preferred_scope)
        for need in request.needs
    )


def best_of(candidates, request, policy):
    """Of nodes or reservations (name, view, choice) the best name and choice, or Nones."""
    results = [
        ((-preferred(choice, request), -node_score(view, request, policy), i), name, choice)
        for i, (name, view, choice) in enumerate(candidates)
        if isinstance(choice, Choice)
    ]
    return min(results, default=(None, None, None), key=lambda item: item[0])[1:]


class Pair:
    """One node in both; what is asked of it must have the same answer."""

    def __init__(self, inventory):
        self.numbers = Numbers()
        self.kernel = _devices.DeviceKernel()
        self.owners = {}
        self.twin = NodeState(inventory)
        self.set_inventory(inventory)

    def set_inventory(self, inventory):
        shape = self.kernel.add_shape(*self.numbers.shape(inventory))
        self.kernel.set_node(0, shape, healthy_masks(inventory))
        self.twin.set_inventory(inventory)

    def visible(self, numa):
        if numa is None:
            return None
        view = View(self.twin, numa)
        return [
            sum(
                1 << i
                for i, device in enumerate(self.twin.inventory.of_type(type))
                if view.is_visible(device)
            )
            for type in TYPES
        ]

    def ask(self, request, policy, numa=None, without=()):
        """The kernel's plan or None, after comparing it with the twin's answer."""
        query = self.numbers.query(request)
        number = POLICIES.index(policy)
        gone = [self.owners[name] for name in without]
        code, type, plan = self.kernel.examine(query, number, 0, self.visible(numa), gone)
        ours = choose(self.twin, request, policy, numa, without)
        if not isinstance(ours, Choice):
            assert (CODES[code], TYPES[type]) == (ours.code, ours.type)
        else:
            assert CODES[code] == "fits"
            assert self.named(plan.charges) == ours.charges
        if numa is None and not without:
            codes, types, resolvable, scores = self.kernel.filter(query, number)
            assert (codes[0], types[0]) == (code, type)
            if isinstance(ours, Choice):
                assert scores[0] == node_score(View(self.twin), request, policy)
                again = self.kernel.schedule(query, number)
                assert again.charges == plan.charges
            else:
                assert resolvable[0] == ours.resolvable
                assert self.kernel.schedule(query, number) is None
        return plan

    def ask_designated(self, request, policy, designated, numa=None):
        """The same with designated devices."""
        query = self.numbers.query(request)
        given = self.numbers.charges(designated)
        code, type, plan = self.kernel.examine(
            query, POLICIES.index(policy), 0, self.visible(numa), (), True, given
        )
        charges = as_charges(designated)
        view = View(self.twin, numa, (), charges, {charge.type for charge in charges}, True)
        ours = choose_in(view, request, policy)
        if isinstance(ours, Choice):
            assert CODES[code] == "fits"
            assert self.named(plan.charges) == ours.charges
        else:
            assert (CODES[code], TYPES[type]) == (ours.code, ours.type)
        return plan

    def named(self, charges):
        return as_charges(self.numbers.allocations(charges, None))

    def commit(self, name, plan):
        self.owners[name] = self.kernel.commit(plan)
        assert self.owners[name] >= 0
        self.twin.charge(name, self.named(plan.charges))

    def release(self, name):
        self.kernel.refund(self.owners.pop(name))
        self.twin.refund(name)

    def check(self):
        self.kernel.check()
