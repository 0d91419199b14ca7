"""The mapping against its twin, and keys and sizes that use it while it uses them."""

import copy
import pickle
from contextlib import suppress

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from profiles import examples

from hivecore.caching import UniformMapping
from hivecore.reference.caching import UniformMapping as Twin

keys = st.one_of(st.integers(0, 12), st.sampled_from(["a", "b", (1, 2), 1.5, None, True]))
values = st.text(max_size=6)


def length(value):
    return len(value or "none")


class Pair(RuleBasedStateMachine):
    @initialize(maxsize=st.integers(1, 30), getsizeof=st.sampled_from([None, length]))
    def start(self, maxsize, getsizeof):
        self.kernel, self.twin = UniformMapping(maxsize, getsizeof), Twin(maxsize, getsizeof)

    def both(self, call):
        answers = []
        for mapping in (self.twin, self.kernel):
            try:
                answers.append(call(mapping))
            except KeyError as error:
                answers.append(error.args)
        assert answers[0] == answers[1]

    @rule(key=keys, value=values)
    def store(self, key, value):
        self.both(lambda mapping: mapping.__setitem__(key, value))

    @rule(key=keys)
    def read(self, key):
        self.both(lambda mapping: mapping[key])
        self.both(lambda mapping: mapping.get(key))
        self.both(lambda mapping: mapping.get(key, 7))
        self.both(lambda mapping: key in mapping)

    @rule(key=keys)
    def delete(self, key):
        self.both(lambda mapping: mapping.__delitem__(key))

    @rule(key=keys, default=st.none() | values)
    def setdefault(self, key, default):
        self.both(lambda mapping: mapping.setdefault(key, default))

    @rule(key=keys, default=values)
    def pop(self, key, default):
        self.both(lambda mapping: mapping.pop(key, default))
        self.both(lambda mapping: mapping.pop(key))

    @rule()
    def popitem(self):
        if self.twin:
            self.both(lambda mapping: mapping.popitem())

    @rule(items=st.dictionaries(keys, values, max_size=5))
    def update(self, items):
        self.both(lambda mapping: mapping.update(items))

    @rule()
    def clear(self):
        self.both(lambda mapping: mapping.clear())

    @rule(way=st.sampled_from([copy.copy, copy.deepcopy, UniformMapping.copy]))
    def go_on_with_a_copy(self, way):
        before, self.kernel = self.kernel, way(self.kernel)
        before.clear()

    @rule()
    def go_on_with_a_pickle(self):
        self.kernel = pickle.loads(pickle.dumps(self.kernel))

    @invariant()
    def same_state(self):
        self.kernel.check()
        self.twin.check()
        assert list(self.kernel.items()) == list(self.twin.items())
        assert len(self.kernel) == len(self.twin)
        assert self.kernel.currsize == self.twin.currsize
        assert self.kernel == self.twin


Pair.TestCase.settings = examples(80, stateful_step_count=40)
test_the_mapping_and_its_twin_agree_after_every_step = Pair.TestCase


class Meddler:
    """A key, or a value with a size, that uses the mapping whenever it is asked for anything."""

    def __init__(self, number, deed):
        self.number, self.deed = number, deed

    def meddle(self):
        deed, self.deed = self.deed, None  # once
        if deed:
            deed()

    def __hash__(self):
        self.meddle()
        return self.number % 2

    def __eq__(self, other):
        self.meddle()
        return isinstance(other, Meddler) and self.number == other.number

    def __index__(self):
        self.meddle()
        return self.number

    def __del__(self):
        self.meddle()


DEEDS = {
    "clears": lambda m: m.clear(),
    "adds": lambda m: m.update({n: n for n in range(100, 104)}),
    "takes the last room": lambda m: m.update({n: n for n in range(100, 140)}),
    "adds the same": lambda m: m.__setitem__(Meddler(5, None), 1),
    "deletes the same": lambda m: m.pop(Meddler(5, None), None),
    "pops": lambda m: m.popitem() if m else None,
}
CALLS = {
    "stores": lambda m, key: m.__setitem__(key, 1),
    "reads": lambda m, key: m.get(key),
    "deletes": lambda m, key: m.pop(key, None),
    "asks": lambda m, key: key in m,
    "sets a default": lambda m, key: m.setdefault(key, 2),
}


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize("delay", ["hash", "eq"])
def test_a_key_that_uses_the_mapping_does_not_break_it(call, deed, present, delay):
    mapping = UniformMapping(8)
    for number in (1, 3, 7, 2):
        mapping[Meddler(number, None)] = number
    stored = Meddler(5, None)
    if present:
        mapping[stored] = 5
    key = Meddler(5, lambda: DEEDS[deed](mapping) if delay == "hash" else None)
    if delay == "eq":
        for other in list(mapping):
            other.deed = lambda: DEEDS[deed](mapping)
    with suppress(KeyError):  # `popitem` may find that its key has gone
        CALLS[call](mapping, key)
    mapping.check()


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("room", [6, 40])
def test_a_size_function_that_uses_the_mapping_does_not_break_it(deed, room):
    mapping = UniformMapping(room, getsizeof=lambda value: value)
    for number in range(3):
        mapping[number] = number
    mapping[5] = Meddler(2, lambda: DEEDS[deed](mapping))
    mapping.check()
    mapping[5] = Meddler(3, lambda: DEEDS[deed](mapping))
    mapping.check()


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("end", ["replace", "delete", "clear", "pop", "grow"])
def test_a_value_whose_end_uses_the_mapping_does_not_break_it(deed, end):
    mapping = UniformMapping(20, getsizeof=lambda value: value if isinstance(value, int) else 3)
    for number in range(3):
        mapping[number] = number
    mapping["x"] = Meddler(1, lambda: DEEDS[deed](mapping))
    match end:
        case "replace":
            mapping["x"] = 2
        case "grow":
            mapping["x"] = 1000
        case "delete":
            del mapping["x"]
        case "pop":
            mapping.pop("x")
        case "clear":
            mapping.clear()
    mapping.check()
