"""The twin answers as a search through all assignments does, which shares no code with it.

It reads the objects themselves, and judges an assignment as a whole.
"""

from collections import Counter
from itertools import combinations, product

from dra import worlds
from hypothesis import assume, given
from hypothesis import strategies as st
from profiles import examples

MOST_ASSIGNMENTS = 3000


def alternatives_of(item):
    if "exactly" in item:
        return [(item["name"], item["exactly"])]
    return [(f"{item['name']}/{sub['name']}", sub) for sub in item["firstAvailable"]]


def consumed(wanted, of):
    """What a request takes of each capacity; None: it cannot be served by an empty device."""
    wish = (wanted.get("capacity") or {}).get("requests", {})
    if not set(wish) <= set(of["capacity"]):
        return None
    amounts = {}
    for name, capacity in of["capacity"].items():
        size, policy = int(capacity["value"]), capacity.get("requestPolicy", {})
        allowed = set(range(size + 1))
        if "validValues" in policy:
            allowed = {int(x) for x in policy["validValues"]}
        elif "validRange" in policy:
            limits = {key: int(x) for key, x in policy["validRange"].items()}
            top = limits.get("max", size)
            allowed = set(range(limits["min"], top + 1, limits.get("step", 1)))
        if name in wish:
            fitting = [x for x in sorted(allowed) if x >= int(wish[name])]
            if not fitting or fitting[0] > size:
                return None
            amounts[name] = fitting[0]
        else:
            amounts[name] = int(policy.get("default", size))
    return amounts


class Judge:
    def __init__(self, slices, claims, held, within=None):
        self.claims, self.within = claims, within or {}
        self.devices, self.sets = {}, {}
        for part in sorted(
            slices, key=lambda of: (of["spec"]["pool"]["name"], of["metadata"]["name"])
        ):
            pool = part["spec"]["pool"]["name"]
            for of in part["spec"].get("devices", []):
                self.devices[pool, of["name"]] = of
            for of in part["spec"].get("sharedCounters", []):
                self.sets[pool, of["name"]] = {
                    key: int(x["value"]) for key, x in of["counters"].items()
                }
        self.order = list(self.devices)
        self.held = held

    def used(self, key, name):
        return sum(amounts.get(name, 0) for of, amounts in self.held if of == key and amounts)

    def is_whole(self, key):
        return any(of == key and amounts is None for of, amounts in self.held)

    def can_share(self, key):
        return bool(self.devices[key].get("allowMultipleAllocations"))

    def candidates(self, wanted):
        results = []
        for key in self.order:
            of, model = self.devices[key], wanted.get("selectors")
            if (
                model
                and f"model={of['attributes']['model']['string']}" != model[0]["cel"]["expression"]
            ):
                continue
            amounts = consumed(wanted, of)
            if amounts is None:
                continue
            if self.can_share(key) and not wanted.get("adminAccess"):
                sizes = {name: int(x["value"]) for name, x in of["capacity"].items()}
                if any(self.used(key, name) + x > sizes[name] for name, x in amounts.items()):
                    continue
            results.append(key)
        return results

    def choices(self, item):
        """All that may be decided of a request, in the order of the first mode."""
        for number, (name, wanted) in enumerate(alternatives_of(item)):
            candidates = self.candidates(wanted)
            if wanted.get("allocationMode") == "All":
                sets = [candidates] if candidates else []
            else:
                sets = combinations(candidates, wanted.get("count", 1))
            for keys in sets:
                yield number, [(name, wanted, key) for key in keys]

    def answers(self, mode):
        requests = [
            (number, request)
            for number, of in enumerate(self.claims)
            for request in of["spec"]["devices"]["requests"]
        ]
        choices = [list(self.choices(entry)) for _, entry in requests]
        size = 1
        for of in choices:
            size *= len(of)
        assume(size <= MOST_ASSIGNMENTS)
        every = list(product(*choices))
        if mode == "best":
            every.sort(key=lambda chosen: [number for number, _ in chosen])
        for chosen in every:
            uses = [
                (number, *use)
                for (number, _), (_, uses) in zip(requests, chosen, strict=True)
                for use in uses
            ]
            if self.is_valid(uses):
                yield [(name, key, self.amounts(wanted, key)) for _, name, wanted, key in uses]

    def amounts(self, wanted, key):
        is_share = self.can_share(key) and not wanted.get("adminAccess")
        return consumed(wanted, self.devices[key]) if is_share else {}

    def is_valid(self, uses):
        owned = [use for use in uses if not use[2].get("adminAccess")]
        return (
            all(self.tolerates(wanted, key) for _, _, wanted, key in uses)
            and all(self.keeps(number, of, uses) for number, of in self.constraints())
            and all(self.is_used_rightly(key, uses, owned) for key in self.devices)
            and self.has_counters({key for *_, key in owned})
            and self.is_within(owned)
        )

    def is_within(self, owned):
        taken = Counter()
        for *_, wanted, key in owned:
            of = self.devices[key]
            amounts = {name: int(x["value"]) for name, x in of.get("capacity", {}).items()}
            if self.can_share(key):
                amounts = consumed(wanted, of)
            taken.update({("any", "capacity", name): x for name, x in amounts.items()})
            for use in of.get("consumesCounters", []):
                for name, x in use["counters"].items():
                    taken["any", "counters", name] += int(x["value"])
        return all(taken[key] <= most for key, most in self.within.items())

    def tolerates(self, wanted, key):
        for taint in self.devices[key].get("taints", []):
            if taint["effect"] != "None" and not any(
                entry.get("key", taint["key"]) == taint["key"]
                for entry in wanted.get("tolerations", [])
            ):
                return False
        return True

    def is_used_rightly(self, key, uses, owned):
        for number in range(len(self.claims)):
            own = [use for use in uses if use[3] == key and use[0] == number]
            if len(own) > 1 and any(use[2].get("adminAccess") for use in own):
                return False
        mine = [use for use in owned if use[3] == key]
        if not mine:
            return True
        if self.is_whole(key):
            return False
        if not self.can_share(key):
            return len(mine) == 1
        of = self.devices[key]
        amounts = [consumed(wanted, of) for _, _, wanted, _ in mine]
        return all(
            sum(x[name] for x in amounts) + self.used(key, name) <= int(size["value"])
            for name, size in of["capacity"].items()
        )

    def has_counters(self, chosen):
        before = {key for key, _ in self.held}
        active = before | chosen
        for pool, name in self.sets:
            users = {
                key: entry
                for key in active
                if key[0] == pool
                for entry in self.devices[key].get("consumesCounters", [])
                if entry["counterSet"] == name
            }
            new = [user for key, user in users.items() if key not in before]
            groups = [set(user.get("compatibilityGroups", [])) for user in users.values()]
            if new and any(groups) and not set.intersection(*groups):
                return False
            for counter, most in self.sets[pool, name].items():
                taken = [
                    int(user["counters"].get(counter, {"value": 0})["value"])
                    for user in users.values()
                ]
                if sum(taken) > most and any(
                    int(entry["counters"].get(counter, {"value": 0})["value"]) for entry in new
                ):
                    return False
        return True

    def constraints(self):
        for number, of in enumerate(self.claims):
            for constraint in of["spec"]["devices"]["constraints"]:
                yield number, constraint

    def keeps(self, number, constraint, uses):
        attribute = constraint.get("matchAttribute") or constraint["distinctAttribute"]
        sets = []
        for of, name, _, key in uses:
            names = constraint["requests"]
            if of == number and (not names or name in names or name.split("/")[0] in names):
                given = self.devices[key]["attributes"].get(attribute.removeprefix("gpu.x/"), {})
                of_kind = [(kind.rstrip("s"), x) for kind, x in given.items()]
                sets.append(
                    {
                        (kind, x)
                        for kind, of in of_kind
                        for x in (of if isinstance(of, list) else [of])
                    }
                )
        if not all(sets):
            return False
        if "matchAttribute" in constraint:
            return not sets or bool(set.intersection(*sets))
        return sum(map(len, sets)) == len(set().union(*sets))

    def breaks_alone(self):
        for number, of in enumerate(self.claims):
            for request in of["spec"]["devices"]["requests"]:
                for name, wanted in alternatives_of(request):
                    if wanted.get("allocationMode") == "All":
                        uses = [(number, name, wanted, key) for key in self.candidates(wanted)]
                        if not all(self.keeps(n, c, uses) for n, c in self.constraints()):
                            return True
        return False


words = st.sampled_from(["a", "b"])
small = st.integers(0, 3).map(str)
ranges = st.sampled_from(
    [
        {"value": "4"},
        {"value": "3"},
        {"value": "4", "requestPolicy": {"default": "1"}},
        {"value": "5", "requestPolicy": {"default": "2", "validValues": ["2", "3"]}},
        {"value": "6", "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "2"}}},
        {"value": "4", "requestPolicy": {"default": "2", "validRange": {"min": "1", "max": "3"}}},
    ]
)
taints = st.lists(
    st.sampled_from(
        [
            {"key": "old", "effect": "NoSchedule"},
            {"key": "hot", "effect": "NoExecute"},
            {"key": "hot", "effect": "None"},
        ]
    ),
    max_size=1,
)


@st.composite
def devices(draw, name, has_counters):
    attributes = {"model": draw(words)}
    if draw(st.integers(0, 3)):
        attributes["root"] = draw(
            words
            | st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True)
            | st.just(1)
        )
    fields = {"taints": draw(taints)} if draw(st.integers(0, 3)) == 0 else {}
    if has_counters and draw(st.booleans()):
        groups = draw(st.sampled_from([[], [], ["a"], ["a", "b"], ["b"]]))
        fields["counters"] = {"set": {"x": draw(small), "y": draw(small), "groups": groups}}
    if draw(st.booleans()):
        return worlds.shared(name, {"memory": draw(ranges)}, attributes, **fields)
    return worlds.device(name, attributes, {"memory": "4"} if draw(st.booleans()) else {}, **fields)


@st.composite
def wanted(draw, can_be_admin):
    fields = {}
    if draw(st.integers(0, 2)) == 0:
        fields["where"] = f"model={draw(words)}"
    if draw(st.integers(0, 3)) == 0:
        fields["capacity"] = {"memory": draw(st.sampled_from(["0", "1", "2", "3", "4"]))}
    if draw(st.integers(0, 3)) == 0:
        tolerations = st.sampled_from(
            [{"operator": "Exists"}, {"key": "old", "operator": "Exists"}]
        )
        fields["tolerations"] = [draw(tolerations)]
    if can_be_admin and draw(st.integers(0, 4)) == 0:
        fields["adminAccess"] = True
    count = draw(st.sampled_from([1, 1, 1, 2, 2, 3, "All"]))
    return worlds.terms(count, **fields)


@st.composite
def requests(draw, name):
    if draw(st.booleans()):
        return {"name": name, "exactly": draw(wanted(True))}
    return worlds.either(
        name, **{sub: draw(wanted(False)) for sub in "st"[: draw(st.integers(1, 2))]}
    )


@st.composite
def claims(draw, name, most):
    of = [draw(requests(f"r{i}")) for i in range(draw(st.integers(1, most)))]
    names = [n for entry in of for n in (entry["name"], *(n for n, _ in alternatives_of(entry)))]
    fields = {}
    for key in ("match", "distinct"):
        if draw(st.integers(0, 2)) == 0:
            attribute = draw(st.sampled_from(["gpu.x/root", "gpu.x/root", "gpu.x/model"]))
            some = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
            fields[key] = (attribute, *some)
    return worlds.claim(*of, name=name, **fields)


@st.composite
def cases(draw):
    slices, held, number = [], [], 0
    for pool in "pq"[: draw(st.integers(1, 2))]:
        has_counters = draw(st.booleans())
        names = [f"d{number + i}" for i in range(draw(st.integers(1, 4 if pool == "p" else 2)))]
        number += len(names)
        of = [draw(devices(name, has_counters)) for name in names]
        fields = {"pool": pool, "count": 1 + has_counters}
        slices.append(worlds.published_slice(f"s{pool}", of, **fields))
        if has_counters:
            sets = {"set": {"x": draw(small), "y": draw(small)}}
            slices.append(worlds.counter_slice(f"t{pool}", sets, **fields))
        for entry in of:
            if draw(st.integers(0, 4)) == 0:
                shares = entry.get("allowMultipleAllocations") and draw(st.booleans())
                held.append(((pool, entry["name"]), {"memory": 1} if shares else None))
    items = [draw(claims(f"c{i}", 3 - i)) for i in range(draw(st.integers(1, 2)))]
    return slices, items, held


limits = st.dictionaries(
    st.sampled_from([("any", "capacity", "memory"), ("any", "counters", "x")]), st.integers(0, 9)
)


@given(cases(), st.sampled_from(["first", "best"]), st.just({}) | limits)
@examples(500)
def test_the_twin_gives_the_first_or_best_of_all_valid_assignments(case, mode, within):
    check(*case, mode, within)


models = st.permutations("abc") | st.permutations("abcab")
alternatives = st.tuples(st.sampled_from([1, 1, 2]), st.sampled_from([None, "a", "b", "c"]))


@given(models, st.lists(st.lists(alternatives, min_size=1, max_size=3), min_size=1, max_size=2))
@examples(250)
def test_alternatives_that_compete_are_chosen_as_each_mode_says(of_devices, of_requests):
    on = [worlds.device(f"d{i}", {"model": model}) for i, model in enumerate(of_devices)]
    wanted = [
        worlds.either(
            f"r{i}",
            **{
                sub: worlds.terms(n, where and f"model={where}")
                for sub, (n, where) in zip("stu", of, strict=False)
            },
        )
        for i, of in enumerate(of_requests)
    ]
    for mode in ("first", "best"):
        check(
            [worlds.published_slice("s", on)],
            [worlds.claim(worlds.request("any"), *wanted)],
            [],
            mode,
        )


def check(slices, built, held, mode, within=None):
    judge = Judge(slices, built, held, within)
    expected = next(judge.answers(mode), None)
    world = worlds.World(*slices)
    for i, ((pool, name), amounts) in enumerate(held):
        result = {"request": "r", "device": name}
        if amounts:
            result |= {"shareID": "1", "consumedCapacity": {"memory": "1"}}
        world.commit(f"held {i}", worlds.allocation(result, pool=pool))
    decision = world.allocate(*built, mode=mode, within=within)
    if expected is None:
        is_wrong = judge.breaks_alone() and not any(Judge(slices, built, held).answers(mode))
        assert decision.outcome == ("error" if is_wrong else "unsatisfiable")
        return
    assert decision.outcome == "allocated"
    results = [result for of in decision.allocations for result in of["devices"]["results"]]
    assert [
        (
            result["request"],
            (result["pool"], result["device"]),
            {name: int(x) for name, x in result.get("consumedCapacity", {}).items()},
        )
        for result in results
    ] == expected
    for i, of in enumerate(decision.allocations):
        world.commit(f"new {i}", of)
    world.allocate(*built, mode=mode, within=within)  # what is left, as the kernel says
