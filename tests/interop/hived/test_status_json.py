"""The status as JSON is the status as plain data, however often it was asked for before.

Plain data are drawn from nothing but the present state; the JSON keeps what has not changed since
it was asked for the last time.
"""

import json
import random
import threading
from time import sleep

import pytest
from interop.hived.clusters import (
    FLAT,
    TREE,
    Hived,
    assert_same,
    config,
    flat,
    flat_config,
    node,
    nodes,
    rack,
    racks,
    spec,
    walk,
)
from interop.servers import at_once
from profiles import seeds

from hivecore.cells import CellCluster
from hivecore.interop.hived import HivedConfig, HivedScheduler, RequestError
from hivecore.interop.hived.inspection import inspector, text
from hivecore.interop.hived.inspection.forests import Atlas
from hivecore.interop.hived.inspection.fragments import Fragments
from hivecore.interop.hived.inspection.scene import scene_of


class Churn:
    """Random pods of two tenants on one scheduler that stays the same object."""

    def __init__(self, seed, hived, tenants=("A", "B"), sizes=(1, 2, 3, 4)):
        self.rng = random.Random(seed)
        self.hived = hived
        self.tenants, self.sizes = tenants, sizes
        self.nodes = sorted(hived.scheduler.config.spec.chains["RACK"].nodes)
        self.pods = []
        self.number = 0

    def step(self):
        rng, hived = self.rng, self.hived
        roll = rng.random()
        if roll < 0.15:
            name = rng.choice(self.nodes)
            (hived.heal if name in hived.bad else hived.fail)(name)
        elif roll < 0.4 and self.pods:
            hived.gone(self.pods.pop(rng.randrange(len(self.pods))))
        else:
            self.number += 1
            pod = f"p{self.number}/0"
            options = {"lazy": rng.random() < 0.3, "ignore": True}
            phase = rng.choice(["Filtering", "Preempting"])
            decision = hived.ask(
                pod,
                rng.choice(self.tenants),
                rng.choice(self.sizes),
                rng.choice([-1, -1, 0, 1, 5]),
                phase=phase,
                **options,
            )
            if decision.outcome == "bind":
                hived.allocate(pod, decision)
            if hived.group(pod) is not None:
                self.pods.append(pod)
        self.pods = [pod for pod in self.pods if hived.group(pod) is not None]


@pytest.mark.parametrize("seed", seeds(3))
def test_json_is_the_status_while_one_scheduler_lives_on(seed):
    churn = Churn(seed, racks(4, {"A": {"RACK": 1, "RACK.NODE": 2}, "B": {"RACK.NODE.SWITCH": 5}}))
    for _ in range(60):
        for _ in range(churn.rng.choice([1, 1, 4])):  # what changes twice may look as before
            churn.step()
        assert_same(churn.hived.scheduler)


def test_another_partner_of_the_same_look_is_drawn():
    """A tenant's two cells change places between two polls: only the addresses differ."""
    hived = racks(2, {"A": {"RACK.NODE": 2, "RACK.NODE.SWITCH": 1}})
    hived.run("a/0", "A", 4)
    hived.run("b/0", "A", 4)
    before = partners(hived)
    places = {pod: hived.running[pod].node for pod in ("a/0", "b/0")}
    assert_same(hived.scheduler)
    hived.gone("a/0", "b/0")
    for pod, other in (("c/0", "b/0"), ("d/0", "a/0")):
        hived.run(pod, "A", 4, ignore=False, suggested=[places[other]])
    assert_same(hived.scheduler)
    after = partners(hived)
    assert before != after
    assert before.keys() == after.keys()


def partners(hived):
    """Physical cell -> virtual cell that is bound to it."""
    return {
        cell["cellAddress"]: cell["virtualCell"]["cellAddress"]
        for cell in walk(hived.scheduler.physical_cluster())
        if "virtualCell" in cell
    }


def test_a_pinned_cell_is_drawn_with_opportunistic_work_on_it():
    """The virtual cell shows the state of its hardware, but no priority: its tenant has no work."""
    cells = [rack("n0", "n1", n0="pin")]
    hived = Hived(config(TREE, cells, {"A": ({}, ["pin"]), "B": {"RACK.NODE": 1}}))
    assert_same(hived.scheduler)
    for pod in ("x/0", "y/0", "z/0"):
        hived.run(pod, "B", 4, -1) if pod != "z/0" else hived.gone("y/0", "x/0")
        assert_same(hived.scheduler)
        used = "n0" in {decision.node for decision in hived.running.values()}
        (pinned,) = hived.scheduler.virtual_cluster("A")
        assert (pinned["cellState"], pinned["cellPriority"]) == ("Used" if used else "Free", -2)
        assert pinned["physicalCell"]["cellPriority"] == (-1 if used else -2)
        physical = next(c for c in walk(hived.scheduler.physical_cluster()) if "virtualCell" in c)
        assert physical["virtualCell"] == {
            key: value
            for key, value in pinned.items()
            if key not in ("cellChildren", "physicalCell")
        }


# Trees of more cells than a piece has; nodes of more leaf cells than that.
LARGE = {
    "NODE": (8, "GPU"),
    "RACK": (4, "NODE"),
    "ROW": (8, "RACK"),
    "HALL": (2, "ROW"),
    "BIG-NODE": (300, "CHIP"),
    "BIG-RACK": (2, "BIG-NODE"),
}


def large():
    cells = [{"cellType": kind} for kind in ("HALL", "HALL", "BIG-RACK")]
    owned = {
        "A": {"HALL": 1, "HALL.ROW": 1, "HALL.ROW.RACK": 1, "BIG-RACK.BIG-NODE": 1},
        "B": {"HALL.ROW.RACK.NODE": 3, "BIG-RACK.BIG-NODE.CHIP": 20},
    }
    return Hived(config(LARGE, cells, owned))


@pytest.mark.parametrize("seed", seeds(3))
def test_large_trees_are_drawn_in_pieces(seed):
    rng, hived = random.Random(seed), large()
    names = [name for c in hived.scheduler.config.spec.chains.values() for name in c.nodes]
    pods = []
    for number in range(12):
        roll = rng.random()
        if roll < 0.2:
            hived.scheduler.set_node(rng.choice(names), rng.random() < 0.5)
        elif roll < 0.4 and pods:
            hived.gone(pods.pop(rng.randrange(len(pods))))
        else:
            pod, size = f"p{number}/0", rng.choice([1, 8])
            kind = rng.choice(["GPU", "CHIP"])
            vc, priority = rng.choice("AB"), rng.choice([-1, 0, 1000])
            decision = hived.ask(pod, vc, size, priority, leafCellType=kind)
            if decision.outcome == "bind":
                hived.scheduler.allocate(pod)
                pods.append(pod)
        assert_same(hived.scheduler)


@pytest.fixture
def drawn(monkeypatch):
    """A list that gets an entry for each piece that is drawn."""
    pieces = []
    write = Fragments.write

    def counted(self, forest, layer, rows, which):
        pieces.extend(which.tolist())
        return write(self, forest, layer, rows, which)

    monkeypatch.setattr(Fragments, "write", counted)
    return pieces


def test_one_change_draws_few_pieces(drawn):
    hived = racks(50, {"A": {"RACK": 40}})
    hived.scheduler.status_json()
    assert len(drawn) == 90
    drawn.clear()
    hived.scheduler.status_json()
    assert not drawn
    hived.run("a/0", "A", 1)
    hived.scheduler.status_json()
    assert len(drawn) == 2
    assert_same(hived.scheduler)


def test_groups_of_tenants_that_are_gone_are_shown():
    hived = flat(4, {"A": {"NODE": 2}, "old": {"NODE": 1}, "older": {"NODE": 1}})
    hived.run("a/0", "A", 4)
    hived.run("b/0", "old", 4)
    hived.run("c/0", "older", 2)
    assert_same(hived.scheduler)
    hived.scheduler.reconfigure(flat_config(4, {"A": {"NODE": 2}}))
    assert set(hived.scheduler.virtual_clusters()) == {"A", "old", "older"}
    assert_same(hived.scheduler)
    hived.gone("b/0")
    assert_same(hived.scheduler)
    assert set(json.loads(hived.scheduler.status_json("virtual"))) == {"A", "older"}
    hived.scheduler.reconfigure(flat_config(4, {"A": {"NODE": 1}, "older": {"NODE": 2}}))
    assert_same(hived.scheduler)


def test_another_tenant_with_the_number_of_one_that_is_gone_is_shown():
    """`k` comes where `m` was, in every respect, between two polls."""
    hived = flat(2, {"A": {"NODE": 1}, "k": {"NODE": 1}})
    decision = hived.run("k/0", "k", 4)
    record = hived.scheduler.bind_info("k/0")
    hived.gone("k/0")
    hived.scheduler.reconfigure(flat_config(2, {"A": {"NODE": 1}, "m": {"NODE": 1}}))
    assert hived.run("m/0", "m", 4).node == decision.node
    hived.scheduler.reconfigure(flat_config(2, {"A": {"NODE": 2}}))
    assert_same(hived.scheduler)
    hived.gone("m/0")
    hived.scheduler.recover("k/0", hived.spec("k/0", "k", 4), record)
    assert_same(hived.scheduler)
    assert set(hived.scheduler.virtual_clusters()) == {"A", "k"}


def test_names_are_escaped():
    names = ['n"0', "n\\1", "n\n2", "nöde-3", "雪"]
    tenants = {'A"': {"NODE": 1}, "B\\ü": {"NODE": 2}}
    hived = Hived(config(FLAT, nodes(*names), tenants))
    for vc in tenants:
        hived.run(f"{vc}{vc}/0", vc, 2)
        hived.run(f"{vc}opp/0", vc, 2, -1)
    assert_same(hived.scheduler)
    assert hived.scheduler.status_json().isascii()


def test_what_owns_nothing_is_empty():
    scheduler = HivedScheduler(config(FLAT, [node("n0")], {"A": {}, "B": {"NODE": 0}}))
    assert_same(scheduler)
    assert scheduler.status_json("virtual") == b'{"A":[],"B":[]}'
    scheduler = HivedScheduler(config(FLAT, [node("n0")], {}))
    assert_same(scheduler)
    assert scheduler.status_json("virtual") == b"{}"


def test_priorities_come_one_by_one():
    hived = flat(3, {"A": {"NODE": 3}})
    for priority in (0, 1000, 7, -1, 999, 1000):
        hived.run(f"p{priority}-{len(hived.running)}/0", "A", 2, priority)
        assert_same(hived.scheduler)


@pytest.mark.parametrize("column", range(4))
def test_a_piece_is_drawn_when_any_number_of_a_cell_changes(column):
    """Those too that follow from the others in every cluster that there can be."""
    read = HivedConfig.read(config(TREE, [rack("n0", "n1")], {"A": {"RACK": 1}, "B": {}}))
    atlas = Atlas(read, read.spec)
    scene = scene_of(atlas, read.spec, CellCluster(read.spec), {})
    for levels in scene.rows.values():
        for rows in levels:
            rows[0] = 0
    warm = text.StatusText(atlas)
    for forest, levels in scene.rows.items():
        for rows in levels:
            before = warm.status(scene)
            changed = rows.copy()
            changed[0][column] = 1
            others = [changed if level is rows else level for level in levels]
            other = scene._replace(rows={**scene.rows, forest: others})
            after = warm.status(other)
            assert after != before
            assert after == text.StatusText(atlas).status(other)


def test_copies_and_saved_schedulers_draw_for_themselves(drawn):
    hived = racks(3, {"A": {"RACK": 2}})
    hived.run("a/0", "A", 4)
    mine = hived.scheduler
    before = mine.status_json()
    for other in (mine.copy(), HivedScheduler.from_bytes(mine.to_bytes())):
        drawn.clear()
        assert other.status_json() == before
        assert len(drawn) == 5
        other.schedule("b/0", spec("A", 4, "b"))
        other.allocate("b/0")
        assert_same(other)
        drawn.clear()
        assert mine.status_json() == before
        assert not drawn
        other.delete("b/0")
        assert other.status_json() == before
    hived.run("c/0", "A", 2)
    assert_same(mine)


def test_a_poll_that_breaks_off_leaves_nothing_wrong(monkeypatch):
    hived = racks(4, {"A": {"RACK": 2}, "B": {"RACK": 1}})
    hived.scheduler.status_json()
    write, calls = Fragments.write, []

    def broken(*arguments):
        calls.append(None)
        if len(calls) == stop:
            raise KeyboardInterrupt
        return write(*arguments)

    monkeypatch.setattr(text, "_CELLS_AT_ONCE", 1)  # one piece at a time
    for stop in (1, 2, 3, 4):
        hived.run("a/0", "A", 3)
        hived.run("b/0", "B", 3)
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Fragments, "write", broken)
            with pytest.raises(KeyboardInterrupt):
                hived.scheduler.status_json()
        if stop % 2 == 0:
            hived.gone("a/0", "b/0")
        assert_same(hived.scheduler)
        hived.gone("a/0", "b/0")
        assert_same(hived.scheduler)


def test_a_poll_shows_the_state_of_when_it_was_asked_for(monkeypatch):
    hived = racks(2, {"A": {"RACK": 1}})
    hived.run("a/0", "A", 4)
    look = inspector.scene_of

    def later(*arguments):
        hived.gone("a/0")
        hived.run("b/0", "A", 1, -1)
        return look(*arguments)

    for ask in (lambda: json.loads(hived.scheduler.status_json()), hived.scheduler.status):
        before = hived.scheduler.status()
        with monkeypatch.context() as patch:
            patch.setattr(inspector, "scene_of", later)
            assert ask() == before
        hived.gone("b/0")
        hived.run("a/0", "A", 4)


def test_polls_take_turns_to_draw(monkeypatch):
    hived = racks(20, {"A": {"RACK": 20}})
    inside, failed = [], []
    write = Fragments.write

    def alone(*arguments):
        inside.append(None)
        sleep(0.001)
        failed.extend(inside[1:])
        written = write(*arguments)
        inside.pop()
        return written

    monkeypatch.setattr(Fragments, "write", alone)
    monkeypatch.setattr(text, "_CELLS_AT_ONCE", 1)
    at_once(*[hived.scheduler.status_json] * 3)
    assert not failed


def test_polls_of_several_threads_each_see_one_state():
    hived = racks(4, {"A": {"RACK": 2}, "B": {"RACK": 1, "RACK.NODE": 1}})
    done, polled, failed = threading.Event(), [], []

    def poll(part):
        try:
            while not done.is_set():
                polled.append((part, hived.scheduler.status_json(part)))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=poll, args=(part,)) for part in (None, None, "virtual")]
    states = {None: [hived.scheduler.status()]}
    for thread in threads:
        thread.start()
    try:
        for number in range(60):
            pod = f"t{number}/0"
            hived.run(pod, "AB"[number % 2], 2, -1)
            states[None].append(hived.scheduler.status())
            if number % 3:
                hived.gone(pod)
                states[None].append(hived.scheduler.status())
            if number % 6 == 5:
                for old in list(hived.running):
                    hived.gone(old)
                    states[None].append(hived.scheduler.status())
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failed
    states["virtual"] = [state["virtualClusters"] for state in states[None]]
    known = {
        part: {json.dumps(state, sort_keys=True) for state in of} for part, of in states.items()
    }
    assert {part for part, _ in polled} == {None, "virtual"}
    for part, drawn in polled:
        assert json.dumps(json.loads(drawn), sort_keys=True) in known[part]
    assert_same(hived.scheduler)


def test_polls_go_on_while_the_configuration_changes():
    tenants = [{"A": {"NODE": 2}, "B": {"NODE": 1}}, {"A": {"NODE": 1}, "B": {"NODE": 3}}]
    hived = flat(4, tenants[0])
    done, failed = threading.Event(), []

    def poll():
        try:
            while not done.is_set():
                owned = {
                    vc: len(trees)
                    for vc, trees in json.loads(hived.scheduler.status_json("virtual")).items()
                }
                assert owned in ({"A": 2, "B": 1}, {"A": 1, "B": 3})
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=poll) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(30):
            hived.scheduler.reconfigure(flat_config(4, tenants[number % 2]))
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failed


@pytest.mark.parametrize("part", ["all", "", 3, b"virtual", ["virtual"]])
def test_unknown_parts_are_refused(part):
    with pytest.raises(ValueError, match=r"part=.*allowed are \[None, 'physical', 'virtual'\]"):
        flat(1, {"A": {"NODE": 1}}).scheduler.status_json(part)


def test_unknown_virtual_clusters_are_refused():
    scheduler = flat(1, {"A": {"NODE": 1}}).scheduler
    for ask in (scheduler.virtual_cluster, scheduler.virtual_cluster_json):
        with pytest.raises(RequestError, match=r"virtual cluster 'B': known are \['A'\]"):
            ask("B")
        with pytest.raises(TypeError, match="name"):
            ask(7)
