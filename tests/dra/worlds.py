"""Small worlds for the tests: objects as Kubernetes writes them, and the twin's answer to them."""

from contextlib import contextmanager
from functools import partial
from itertools import count

from hivecore.dra import (
    DeviceClass,
    DeviceTaintRule,
    DraCluster,
    KubernetesFeatures,
    Node,
    ResourceClaim,
    ResourceSlice,
    _claim_kind,
    gather_pools,
    published,
)
from hivecore.dra._book import Book
from hivecore.dra.ledger import _entries
from hivecore.dra.result import write_allocation
from hivecore.reference.dra import Allocator

DRIVER = "gpu.x"
EVERY_GATE = KubernetesFeatures.of(
    "1.37", {"DRAListTypeAttributes": True, "DRADeviceCompatibilityGroups": True}
)


def value(of):
    """An attribute: booleans, integers and texts by their type, lists of these, or as given."""
    if isinstance(of, dict):
        return of
    names = {bool: "bool", int: "int", str: "string"}
    if isinstance(of, list):
        return {f"{names[type(of[0])]}s": of}
    return {names[type(of)]: of}


def device(name, attributes=None, capacity=None, counters=None, **fields):
    """A device; ``counters`` by counter set."""
    fields["attributes"] = {key: value(of) for key, of in (attributes or {}).items()}
    fields["capacity"] = {
        key: of if isinstance(of, dict) else {"value": of} for key, of in (capacity or {}).items()
    }
    if counters:
        fields["consumesCounters"] = [consumption(of, **taken) for of, taken in counters.items()]
    return {"name": name, **fields}


def consumption(of, groups=(), **taken):
    results = {"counterSet": of, "counters": {key: {"value": n} for key, n in taken.items()}}
    return results | ({"compatibilityGroups": list(groups)} if groups else {})


def shared(name, capacity, attributes=None, **fields):
    return device(name, attributes, capacity, allowMultipleAllocations=True, **fields)


def published_slice(name, devices=(), driver=DRIVER, pool="p", generation=1, count=1, **spec):
    """A slice of node n1, unless ``spec`` chooses nodes."""
    if not spec.keys() & {"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"}:
        spec["nodeName"] = "n1"
    of = {"name": pool, "generation": generation, "resourceSliceCount": count}
    if devices:
        spec["devices"] = list(devices)
    return {"metadata": {"name": name}, "spec": {"driver": driver, "pool": of, **spec}}


def counter_slice(name, sets, **fields):
    counters = [
        {"name": of, "counters": {key: {"value": n} for key, n in amounts.items()}}
        for of, amounts in sets.items()
    ]
    return published_slice(name, sharedCounters=counters, **fields)


def gpus(number, **fields):
    """A slice with so many devices d0, d1, ..."""
    name = fields.pop("name", "s")
    return published_slice(name, [device(f"d{i}") for i in range(number)], **fields)


def terms(count=None, where=None, capacity=None, **fields):
    """A request of class "any"; ``where``: an expression of `matches`."""
    fields.setdefault("deviceClassName", "any")
    if count == "All":
        fields["allocationMode"] = "All"
    elif count is not None:
        fields["count"] = count
    if where:
        fields["selectors"] = [{"cel": {"expression": where}}]
    if capacity is not None:
        fields["capacity"] = {"requests": capacity}
    return fields


def request(name, *arguments, **fields):
    return {"name": name, "exactly": terms(*arguments, **fields)}


def either(name, **alternatives):
    subs = [{"name": sub, **of} for sub, of in alternatives.items()]
    return {"name": name, "firstAvailable": subs}


def claim(*requests, name="c", match=None, distinct=None, **fields):
    """A claim; ``match`` and ``distinct``: an attribute, or it and the requests."""
    constraints = list(fields.pop("constraints", []))
    for key, of in (("matchAttribute", match), ("distinctAttribute", distinct)):
        if of is not None:
            attribute, *names = [of] if isinstance(of, str) else of
            constraints.append({key: attribute, "requests": names})
    spec = {"devices": {"requests": list(requests), "constraints": constraints, **fields}}
    return {"metadata": {"name": name}, "spec": spec}


def device_class(name="any", where=(), **spec):
    selectors = [{"cel": {"expression": expression}} for expression in where]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}


def matches(expression, of):
    """Stands for CEL: "model=a" compares an attribute of the driver; others fail."""
    if expression == "no CEL":
        raise SyntaxError("no CEL")
    if expression == "shareable":
        return of.device.allow_multiple_allocations
    name, _, wanted = expression.partition("=")
    attribute = of.attribute(f"{of.driver}/{name}")
    if attribute is None:
        raise KeyError(name)
    return str(attribute.value) == wanted


def allocation(*devices, driver=DRIVER, pool="p"):
    """A ``status.allocation`` with these devices; or results, as dicts."""
    results = [of if isinstance(of, dict) else {"request": "r", "device": of} for of in devices]
    return {"devices": {"results": [{"driver": driver, "pool": pool, **of} for of in results]}}


@contextmanager
def plain_steps(number):
    """So many steps of the plain search before the exact one."""
    before, _claim_kind._FEW = _claim_kind._FEW, number
    try:
        yield
    finally:
        _claim_kind._FEW = before


def object_of(kind, document, version="v1"):
    return document | {"kind": kind, "apiVersion": f"resource.k8s.io/{version}"}


def holder(name, given):
    """A claim that has been given these devices."""
    document = claim(request("r"), name=name) | {"status": {"allocation": given}}
    return object_of("ResourceClaim", document)


def cluster_of(*slices, classes=(), **options):
    """A cluster with these objects, in which selectors are those of `matches`."""
    ids = count()
    cluster = DraCluster(
        EVERY_GATE, share_id=lambda: f"share-{next(ids)}", **{"evaluator": matches} | options
    )
    cluster.update(*(object_of("ResourceSlice", part) for part in slices))
    known = [device_class(), *classes]
    cluster.update(*(object_of("DeviceClass", entry) for entry in known))
    return cluster


class World:
    """A cluster of which the twin can be asked; the kernel has to give the same answer."""

    def __init__(
        self, *slices, classes=(), rules=(), features=EVERY_GATE, held=(), evaluator=matches
    ):
        self.slices = [ResourceSlice.of(part) for part in slices]
        known = [device_class(), *classes]
        self.classes = {entry["metadata"]["name"]: DeviceClass.of(entry) for entry in known}
        self.rules = [DeviceTaintRule.of(rule) for rule in rules]
        self.features, self.book, self.evaluator = features, Book(), evaluator
        for number, entry in enumerate(held):
            self.commit(f"held {number}", entry)

    def commit(self, owner, given):
        entries = _entries(ResourceClaim(owner, allocation=given))
        if self.book.conflict(entries) is not None:
            raise ValueError(f"{given}: in use")
        charges = {id: of.consumes_counters for id, of in published(self.slices).items()}
        self.book.add(owner, entries, charges)

    def pools(self, node="n1", labels=None):
        return gather_pools(self.slices, Node(node, labels or {}), self.features, self.rules)

    def allocate(self, *claims, node="n1", labels=None, mode="first", is_checked=True, within=None):
        ids = iter(range(100))
        twin = Allocator(
            Node(node, labels or {}),
            self.pools(node, labels),
            self.classes,
            self.book,
            self.features,
            self.evaluator,
            write_allocation,
            lambda: f"share-{next(ids)}",
        )
        decision = twin.allocate([ResourceClaim.of(claim) for claim in claims], mode, within)
        if is_checked:
            self.check_kernel(decision, claims, Node(node, labels or {}), mode, within)
        return decision

    def check_kernel(self, wanted, claims, node, mode, within=None):
        """The kernel decides the same, with and without the plain search before the exact one."""
        for steps in (512, 0):
            ids = count()
            share_id = partial(lambda ids: f"share-{next(ids)}", ids)
            cluster = DraCluster(self.features, evaluator=self.evaluator, share_id=share_id)
            cluster.update(*self.slices, *self.classes.values(), *self.rules, node)
            cluster._book = self.book.copy()
            with plain_steps(steps):
                decision = cluster.allocate(claims, node.name, mode, within)
            cluster.check()
            assert decision.outcome == wanted.outcome
            assert decision.allocations == wanted.allocations
            if wanted.outcome == "error":
                codes = {problem.code for problem in wanted.problems}
                assert {problem.code for problem in decision.problems} & codes

    def given(self, *claims, **options):
        """The devices as "request:device", or the outcome, or the class of the error."""
        decision = self.allocate(*claims, **options)
        if decision.outcome == "error":
            return decision.problems[0].code
        if decision.outcome == "unsatisfiable":
            return decision.outcome
        return " ".join(
            f"{result['request']}:{result['device']}"
            for allocation in decision.allocations
            for result in allocation["devices"]["results"]
        )

    def results(self, *claims, **options):
        (result,) = self.allocate(*claims, **options).allocations
        return result["devices"]["results"]
