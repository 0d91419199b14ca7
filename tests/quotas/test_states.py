"""Trees of quotas as copies and as bytes, under several threads, and after a restart."""

import copy
import itertools
import json
import pickle
from random import Random

import pytest
from objects.saved_states import sealed_nonsense_is_refused_or_sound
from profiles import seeds, times
from quotas.examples import request, tree_with_owners
from quotas.lives import Life, same

from hivecore._sealed import seal, unseal
from hivecore.errors import CorruptStateError
from hivecore.quotas import Quota, QuotaRequest, QuotaTree


def lived(seed=0, steps=90, **settings):
    """A tree that has been through something, with owners that may not borrow."""
    life, rng = Life(**settings), Random(f"{seed} lived")
    for _ in range(steps):
        life.step(rng)
    for name in life.tree.owners[:3]:
        life.tree.evict(name)
    return life.tree


def test_saved_nonsense_is_refused_or_sound():
    sealed_nonsense_is_refused_or_sound(tree_with_owners)


BRANCHES = [
    lambda tree: tree.copy(),
    copy.copy,
    copy.deepcopy,
    lambda tree: pickle.loads(pickle.dumps(tree)),
    lambda tree: QuotaTree.from_bytes(bytearray(tree.to_bytes())),
]


@pytest.mark.parametrize("branched", BRANCHES)
@pytest.mark.parametrize("limit", ["runtime", "max"])
def test_a_branch_is_the_same_in_all_that_can_be_seen_and_goes_its_own_way(branched, limit):
    for seed in seeds(8):
        tree = lived(seed, limit=limit, check_ancestors=seed % 2 == 0)
        before = tree.to_bytes()
        branch = branched(tree)
        same(branch, tree)
        branch.check()
        for name in branch.owners:
            branch.release(name)
        for name in reversed(branch.quotas):
            branch.remove(name)
        branch.set_total({})
        branch.check()
        assert tree.to_bytes() == before
        tree.check()


def test_a_copy_lives_on_as_its_original():
    for seed in seeds(6):
        life, rng = Life(), Random(f"{seed} before")
        for _ in range(60):
            life.step(rng)
        other = copy.copy(life)
        other.tree, other.twin = life.tree.copy(), copy.deepcopy(life.twin)
        ends = []
        for item in (life, other):
            chance = Random(f"{seed} after")
            for _ in range(40):
                item.step(chance)
                item.check()
            ends.append(item.tree)
        same(*ends)


def test_decisions_are_pickled_and_copied_as_values():
    tree = tree_with_owners()
    for wish in ("waits", request(), ["waits", request()], request(amounts={"x": 50})):
        decision = tree.schedule(wish)
        for other in (pickle.loads(pickle.dumps(decision)), copy.deepcopy(decision)):
            assert other == decision
            assert hash(other) == hash(decision)
            assert repr(other) == repr(decision)
    assert tree.schedule("waits") != tree.schedule(request())


VALUES = [None, True, -1, 0, 1, 2**31, 2**62, 2**63, 10**30, 0.5, "", "x", "a", [], {}, [["x", 1]]]


def tampered(value, rng):
    """The same with something else somewhere."""
    if isinstance(value, dict) and value and rng.random() < 0.95:
        key = rng.choice(sorted(value))
        changed = {**value, key: tampered(value[key], rng)}
        if rng.random() < 0.1:
            changed.pop(key)
        return changed
    if isinstance(value, list) and value and rng.random() < 0.9:
        place, created = rng.randrange(len(value)), list(value)
        kind = rng.random()
        if kind < 0.7:
            created[place] = tampered(created[place], rng)
        elif kind < 0.85:
            created.insert(place, created[rng.randrange(len(created))])
        else:
            del created[place]
        return created
    if type(value) is int and rng.random() < 0.7:
        return value + rng.choice((-1, 1, 2))
    return rng.choice(VALUES)


def test_states_that_say_something_else_are_refused_or_possible():
    rng = Random(5)
    state = json.loads(unseal(b"HCQT", 1, tree_with_owners().to_bytes()))
    outcomes = {"refused": 0, "possible": 0}
    for _ in range(max(times(1500), 200)):
        changed = tampered(state, rng)
        try:
            tree = QuotaTree.from_bytes(seal(b"HCQT", 1, json.dumps(changed).encode()))
        except CorruptStateError as error:
            outcomes["refused"] += 1
            assert str(error).startswith("data: ")
            continue
        outcomes["possible"] += 1
        tree.check()
        same(QuotaTree.from_bytes(tree.to_bytes()), tree)
    assert min(outcomes.values()) > 20


@pytest.mark.parametrize(
    "payload",
    [b"", b"null", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"settings": 1}', b"NaN", b'"x"'],
    ids=lambda payload: repr(payload[:12]),
)
def test_other_texts_are_no_states(payload):
    with pytest.raises(CorruptStateError, match="data: "):
        QuotaTree.from_bytes(seal(b"HCQT", 1, payload))


def test_names_of_any_letters_are_kept():
    names = ["é", "\N{DUCK}", "a/b", '"', "\\", "\x00", " ", "A" * 1000, "\ud800"]
    tree = QuotaTree([Quota(name, max={name: 3}) for name in names])
    tree.set_total(dict.fromkeys(names, 3))
    for name in names:
        tree.commit(tree.schedule(QuotaRequest(name, name, {name: 2})))
    other = QuotaTree.from_bytes(tree.to_bytes())
    same(other, tree)
    assert other.quotas == tuple(sorted(names))


# --- a restart


def test_the_order_of_recovery_matters_only_for_the_order_of_admission():
    tree = tree_with_owners()
    requests = [(tree.request(name), tree.members(name)) for name in tree.owners]
    empty = tree.copy()
    for name in tree.owners:
        empty.release(name)
    for order in itertools.permutations(requests):
        branch = empty.copy()
        for item, members in order:
            branch.recover(item, members)
        branch.check()
        assert [branch.status(name) for name in branch.quotas] == [
            tree.status(name) for name in tree.quotas
        ]
        assert [branch.members(name) for name in branch.owners] == [1, 2, 0]


def test_those_recovered_first_count_as_admitted_first():
    for order in itertools.permutations("abc"):
        tree = QuotaTree([Quota("q", max={"x": 1})], total={"x": 1})
        for name in order:
            tree.recover(request(name, "q"), 1)
        assert tree.overusers("q") == order[1:]
        assert QuotaTree.from_bytes(tree.to_bytes()).overusers("q") == order[1:]


def test_recovered_owners_count_whatever_the_limits():
    tree = QuotaTree([Quota("q", max={"x": 1})])
    tree.recover(request("large", "q", {"x": 2**61}, preemptible=False), 1)
    assert tree.status("q").used == {"x": 2**61}
    assert tree.runtime("q") == {"x": 0}
    assert tree.overused() == ("q",)
    assert tree.overusers("q") == ()
    tree.check()


# --- threads
