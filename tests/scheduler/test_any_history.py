"""Any history of any composition: the actions are consistent with a ledger."""

import copy
import pickle
from contextlib import contextmanager
from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from profiles import examples
from scheduler.lives import (
    ALL_NODES,
    COMPOSITIONS,
    DATA,
    DATASETS,
    GPUS,
    MACHINE,
    RACKS,
    ROLES,
    SPECS,
    STAGES,
    TENANTS,
    Ledger,
    enforced,
    make_job,
    make_scheduler,
)

from hivecore.quotas import Quota
from hivecore.scheduler import FreeNodes, Move, Preempt, Start
from hivecore.verify import verify_actions

NAMES = [f"j{i}" for i in range(6)]
PLACED = {"cells", "topology", "devices"}


def all_go(scheduler, now):
    """Some jobs are gone with the jobs that they had to stop for."""
    for name in list(scheduler):
        if name in scheduler:
            scheduler.cancel(name, now)


def restarted(scheduler):
    return pickle.loads(pickle.dumps(scheduler))


class Lives(RuleBasedStateMachine):
    @initialize(
        parts=st.sampled_from(sorted(COMPOSITIONS)),
        blocking=st.sampled_from(["fifo", "best-effort"]),
        limit=st.sampled_from(["runtime", "max"]),
        immediate=st.booleans(),
    )
    def begin(self, parts, blocking, limit, immediate):
        self.parts = COMPOSITIONS[parts]
        self.immediate, self.blocking = immediate, blocking
        self.scheduler = make_scheduler(
            self.parts, blocking=blocking, limit=limit, immediate=immediate
        )
        self.ledger = Ledger(self.parts)
        self.now, self.rejected = 0.0, set()

    @rule(
        name=st.sampled_from(NAMES),
        tenant=st.sampled_from(TENANTS),
        roles=st.sampled_from(sorted(ROLES)),
        priority=st.integers(0, 2),
        guaranteed=st.booleans(),
        preemptible=st.booleans(),
        rack=st.booleans(),
        after=st.booleans(),
        data=st.sampled_from(sorted(DATA)),
        stages=st.sampled_from(sorted(STAGES)),
    )
    def submit(
        self, name, tenant, roles, priority, guaranteed, preemptible, rack, after, data, stages
    ):
        while name in self.scheduler or name in self.rejected:
            name += "'"  # names of jobs that are gone are used again
        name = self.unused(name)
        waits = sorted(set(self.scheduler))[-1:] if after else []
        self.submit_one(
            name,
            tenant,
            roles,
            priority=priority,
            guaranteed=guaranteed,
            preemptible=preemptible or not guaranteed,
            rack=rack,
            after=waits,
            data=DATA[data],
            stages=STAGES[stages],
        )

    @rule(
        data=st.data(),
        tenant=st.sampled_from(TENANTS),
        roles=st.lists(st.sampled_from(sorted(ROLES)), min_size=2, max_size=3),
        mutual=st.booleans(),
        guaranteed=st.booleans(),
        stages=st.sampled_from(sorted(STAGES)),
    )
    def submit_together(self, data, tenant, roles, mutual, guaranteed, stages):
        """Jobs of which the first names all others, and these name it, or none."""
        names = []
        for _ in roles:
            name = self.unused("g")
            while name in self.scheduler or name in self.rejected or name in names:
                name = self.unused(name + "'")
            names.append(name)
        for at, (name, role) in enumerate(zip(names, roles, strict=True)):
            others = names[1:] if not at else names[:1] * mutual
            after = names[:1] if at and data.draw(st.booleans()) else []
            self.submit_one(
                name,
                tenant,
                role,
                guaranteed=guaranteed,
                priority=data.draw(st.integers(0, 2)),
                stages=STAGES[stages],
                together=others,
                after=after,
            )

    def submit_one(self, name, *arguments, **more):
        job = enforced(self.scheduler, make_job(name, *arguments, **more))
        self.scheduler.submit(job, self.now)
        self.ledger.submit(job)
        if name not in self.scheduler:
            self.rejected.add(name)
        with pytest.raises(ValueError, match="job="):
            self.scheduler.submit(job, self.now)

    def unused(self, name):
        """A job may have been rejected by an event, which the next `decide` reports."""
        while True:
            try:
                copy.copy(self.scheduler).submit(make_job(name, "a", "one"), self.now)
            except ValueError as error:
                assert "of this name" in str(error)
                name += "'"
            else:
                return name

    @rule(later=st.integers(0, 3), most=st.none() | st.integers(1, 2))
    def decide(self, later, most):
        self.now += later
        before = copy.copy(self.scheduler)
        actions = self.scheduler.decide(self.now, most)
        self.rejected.clear()
        # In an order all start at once, before quotas learn of the pods that join them.
        is_at_once = self.ledger.in_order and "quotas" in self.parts
        if not is_at_once and not any(isinstance(action, Move) for action in actions):
            verify_actions(actions, self.ledger.jobs, before)
        # some of those that have stopped were to end then
        remaining = [name for name in before if name in self.scheduler]
        self.ledger.waiting = {name for name in remaining if name not in self.ledger.running}
        self.ledger.note(actions, self.immediate)
        self.promise(actions)
        if most is None:
            if self.ledger.in_order and {"quotas", "cells"} & set(self.parts):
                self.settle()
            assert self.scheduler.decide(self.now) == []
            branch = copy.copy(self.scheduler)
            branch.touch()
            again = branch.decide(self.now)
            changes = [action for action in again if isinstance(action, (Start, Preempt))]
            # Where the first of jobs that start together runs depends on what is idle when they are
            # tried, and so does what is left for the others.
            starts = [
                self.ledger.jobs[action.job] for action in changes if isinstance(action, Start)
            ]
            assert not changes or any(job.together for job in starts), again

    def promise(self, actions):
        """Whatever a job needs is held for it as soon as others have to stop for it."""
        left = [
            action for action in actions if isinstance(action, Preempt) and action.why != "order"
        ]
        for winner in {action.for_job for action in left}:
            if not self.immediate:
                self.ledger.promise(winner, self.scheduler.status(winner).pods)

    def settle(self):
        """An order may need more rounds, as free cells and what quotas lend depend on the past."""
        for _ in range(8):
            actions = self.scheduler.decide(self.now)
            self.ledger.note(actions, self.immediate)
            if not actions:
                return

    @precondition(lambda self: self.ledger.running)
    @rule(data=st.data())
    def finish(self, data):
        name = data.draw(st.sampled_from(sorted(self.ledger.running)))
        self.scheduler.finish(name, self.now)
        if self.ledger.stopping.get(name) is None:
            assert name not in self.scheduler
        self.gone(name)

    @precondition(lambda self: len(self.scheduler))
    @rule(data=st.data())
    def cancel(self, data):
        name = data.draw(st.sampled_from(sorted(self.scheduler)))
        self.scheduler.cancel(name, self.now)
        self.gone(name)

    @precondition(lambda self: set(self.scheduler) - set(self.ledger.running))
    @rule(
        data=st.data(), roles=st.sampled_from(sorted(ROLES)), priority=st.none() | st.integers(0, 2)
    )
    def amend(self, data, roles, priority):
        """A waiting job changes its request; a stopped victim does not wait yet."""
        name = data.draw(st.sampled_from(sorted(set(self.scheduler) - set(self.ledger.running))))
        job = enforced(self.scheduler, self.ledger.jobs[name].replace(roles=ROLES[roles]))
        changes = {"roles": job.roles}
        if priority is not None:
            changes["priority"] = priority
        if name in self.ledger.held:
            with pytest.raises(ValueError, match="cannot change"):
                self.scheduler.amend(name, self.now, **changes)
            return
        self.scheduler.amend(name, self.now, **changes)
        self.ledger.let_go(name)
        self.ledger.submit(job.replace(**changes))
        if name not in self.scheduler:
            self.rejected.add(name)

    def gone(self, name):
        self.ledger.ended(name)
        self.ledger.let_go(name)

    @precondition(lambda self: self.ledger.running)
    @rule(data=st.data())
    def fail(self, data):
        name = data.draw(st.sampled_from(sorted(self.ledger.running)))
        self.scheduler.fail(name, self.now)
        self.ledger.ended(name)

    @precondition(lambda self: self.ledger.running)
    @rule(data=st.data())
    def fail_one_pod(self, data):
        name = data.draw(st.sampled_from(sorted(self.ledger.running)))
        pod = data.draw(st.sampled_from(self.ledger.running[name]))
        self.scheduler.fail(name, self.now, f"{pod.role}/{pod.index}")
        self.ledger.failed(name, pod)

    @precondition(lambda self: self.ledger.stopping)
    @rule(data=st.data(), how=st.sampled_from(["finish", "cancel", "fail"]))
    def end_while_stopping(self, data, how):
        name = data.draw(st.sampled_from(sorted(self.ledger.stopping)))
        getattr(self.scheduler, how)(name, self.now)
        self.ledger.ended(name)

    @precondition(lambda self: any(self.ledger.stopping.values()))
    @rule(data=st.data())
    def cancel_a_reserved_job(self, data):
        winners = sorted(set(self.ledger.stopping.values()) - {""})
        self.cancel_one(data.draw(st.sampled_from(winners)))

    def cancel_one(self, name):
        assert self.scheduler.status(name).victims
        self.scheduler.cancel(name, self.now)
        assert name not in self.scheduler
        self.gone(name)

    @precondition(lambda self: self.ledger.held)
    @rule(data=st.data(), how=st.sampled_from(["finish", "cancel"]))
    def end_after_stopping(self, data, how):
        """Its resources are held, and not requested afterwards."""
        name = data.draw(st.sampled_from(sorted(self.ledger.held)))
        getattr(self.scheduler, how)(name, self.now)
        with pytest.raises(ValueError, match="job="):
            self.scheduler.stopped(name, self.now)

    @precondition(lambda self: self.ledger.stopping)
    @rule(data=st.data())
    def stop(self, data):
        name = data.draw(st.sampled_from(sorted(self.ledger.stopping)))
        self.scheduler.stopped(name, self.now)
        self.ledger.ended(name)

    @precondition(lambda self: PLACED & set(self.parts))
    @rule(node=st.sampled_from(ALL_NODES), healthy=st.booleans())
    def set_node(self, node, healthy):
        if node not in self.ledger.known:
            with self.refuses(KeyError):
                self.scheduler.set_node(node, healthy, self.now)
            return
        self.scheduler.set_node(node, healthy, self.now)
        self.ledger.set_health(node, healthy)

    @contextmanager
    def refuses(self, error):
        before = self.scheduler.to_bytes()
        with pytest.raises(error):
            yield
        assert self.scheduler.to_bytes() == before

    @precondition(lambda self: PLACED & set(self.parts))
    @rule(node=st.sampled_from(ALL_NODES))
    def remove_node(self, node):
        ledger = self.ledger
        if ledger.known == {node}:
            return  # the ledger knows no cluster without nodes
        if node not in ledger.known:
            with self.refuses((KeyError, ValueError)):
                self.scheduler.remove_node(node, self.now)
            return
        self.scheduler.remove_node(node, self.now)
        ledger.removed(node)

    @precondition(lambda self: PLACED & set(self.parts))
    @rule(node=st.sampled_from(ALL_NODES))
    def add_node(self, node):
        arguments = {}
        if "topology" in self.parts:
            arguments |= {"labels": {"rack": RACKS[node]}, "free": {"gpu": GPUS}}
        if "devices" in self.parts:
            arguments["inventory"] = MACHINE
        if "devices" in self.parts:
            with self.refuses((KeyError, ValueError)):
                self.scheduler.add_node(node, self.now, **{**arguments, "inventory": None})
        if not self.ledger.may_come(node):
            with self.refuses((KeyError, ValueError)):
                self.scheduler.add_node(node, self.now, **arguments)
            return
        self.scheduler.add_node(node, self.now, **arguments)
        self.ledger.added(node)

    @precondition(lambda self: "quotas" in self.parts)
    @rule(
        quota=st.sampled_from(["all", "a", "b"]),
        most=st.integers(0, 6),
        least=st.integers(0, 2),
        weight=st.none() | st.integers(0, 3),
    )
    def set_quota(self, quota, most, least, weight):
        parent, least = ("", 0) if quota == "all" else ("all", min(least, most))
        weights = None if weight is None else {"gpu": weight}
        limits = {"max": {"gpu": 4 * most}, "min": {"gpu": 4 * least}, "weight": weights}
        self.scheduler.set_quota(Quota(quota, parent=parent, **limits), self.now)
        self.ledger.set_limits(quota, 4 * most, 4 * least)
        with self.refuses(KeyError):
            self.scheduler.set_quota(Quota("c", max={"gpu": 1}, parent="lost"), self.now)

    @precondition(lambda self: "quotas" in self.parts)
    @rule(total=st.integers(0, 24))
    def set_total(self, total):
        self.scheduler.set_total({"gpu": total}, self.now)
        self.ledger.set_limits(total=total)

    @precondition(lambda self: "cells" in self.parts)
    @rule(spec=st.sampled_from(sorted(SPECS)))
    def reconfigure(self, spec):
        self.scheduler.reconfigure(SPECS[spec], self.now)
        self.ledger.reconfigured(SPECS[spec])

    @precondition(lambda self: PLACED & set(self.parts))
    @rule(node=st.sampled_from(ALL_NODES), later=st.integers(0, 3))
    def move(self, node, later):
        """A node becomes free by a plan, step by step."""
        if node not in self.ledger.nodes:
            return
        self.now += later
        self.scheduler.advance(self.now)
        plan = self.scheduler.plan_moves(FreeNodes([node]), most_tries=8)
        for step in plan.steps:
            self.scheduler.move(step, self.now)
            self.ledger.moved_away(step)
            self.scheduler.check()
        if not plan.reason:
            assert all(pod.node != node for pods in self.ledger.running.values() for pod in pods)

    @precondition(lambda self: len(self.scheduler))
    @rule(data=st.data(), named=st.integers(0, 9), together=st.booleans())
    def reorder(self, data, named, together):
        """The named jobs run in this order from now on; none: the queues decide again."""
        names = data.draw(st.permutations(sorted(self.scheduler)))[:named]
        bound = [name for name in names if self.scheduler.job(name).together]
        if bound:
            with pytest.raises(ValueError, match="order:"):
                self.scheduler.reorder(names, self.now)
            names = [name for name in names if name not in bound]
        order = list(names)
        if "sharing" in self.parts and together:
            order = self.grouped(names)
        if "lending" in self.parts:
            with pytest.raises(ValueError, match="order:"):
                self.scheduler.reorder(order, self.now)
            return
        self.scheduler.reorder(order, self.now)
        self.ledger.in_order = bool(order)

    def grouped(self, names):
        """Group the first of the remaining jobs with jobs that may share with it."""
        jobs, order, left = self.ledger.jobs, [], list(names)
        while left:
            first = jobs[left[0]]
            fits = first.stages and all(role.min_pods == role.pods for role in first.roles)
            alike = [name for name in left if fits and jobs[name].stages]
            group = [name for name in alike if self.ledger.alike(jobs[name], first)][:3]
            order.append(group if len(group) > 1 else left[0])
            left = [name for name in left if name not in (group or left[:1])]
        return order

    @rule(how=st.sampled_from([copy.copy, restarted]))
    def branch(self, how):
        """A branch decides the same, and does not affect the original."""
        before = self.scheduler.to_bytes()
        branch = how(self.scheduler)
        assert how is restarted or branch.to_bytes() == before
        branch.check()
        other = copy.copy(self.scheduler)
        assert branch.decide(self.now) == other.decide(self.now)
        all_go(branch, self.now)
        branch.decide(self.now)
        assert self.scheduler.to_bytes() == before
        if how is restarted:
            self.scheduler = restarted(self.scheduler)

    @rule()
    def refused(self):
        for call, error in (
            (lambda: self.scheduler.finish("unknown", self.now), KeyError),
            (lambda: self.scheduler.cancel("unknown", self.now), KeyError),
            (lambda: self.scheduler.stopped("unknown", self.now), KeyError),
            (lambda: self.scheduler.advance(self.now - 1), ValueError),
        ):
            with pytest.raises(error):
                call()

    @invariant()
    def all_adds_up(self):
        if hasattr(self, "scheduler"):
            self.scheduler.check()
            self.ledger.check()
            winners = {*self.ledger.stopping.values(), *self.ledger.held.values()}
            for name in winners - {*self.scheduler, ""}:
                assert "cells" in self.parts or name in self.ledger.doomed
                self.ledger.let_go(name)  # it was rejected
            for name in self.scheduler:
                status = self.scheduler.status(name)
                pods = () if status.has_stopped else status.pods
                pods_by_job = (
                    self.ledger.promised if status.state == "reserved" else self.ledger.running
                )
                assert set(pods) == set(pods_by_job.get(name, ()))
                assert status.has_stopped == (name in self.ledger.held)
                assert status.pods or self.ledger.is_possible(self.ledger.jobs[name])
            assert set(self.ledger.running) <= set(self.scheduler)

    def teardown(self):
        """All jobs leave: everything is as at first."""
        if hasattr(self, "scheduler"):
            all_go(self.scheduler, self.now)
            for name in list(self.ledger.stopping):
                if name in self.scheduler:
                    self.scheduler.stopped(name, self.now)
            assert len(self.scheduler) == 0
            self.scheduler.check()

    @precondition(lambda self: "storage" in self.parts)
    @rule(data=st.data())
    def observe(self, data):
        share = st.floats(0.0, 1.0)
        cached = data.draw(st.dictionaries(st.sampled_from(sorted(DATASETS)), share))
        readers = [name for name in self.scheduler if self.scheduler.job(name).data is not None]
        jobs = st.dictionaries(st.sampled_from(readers), share) if readers else st.just({})
        self.scheduler.observe(
            self.now,
            cached_gb={name: part * DATASETS[name] for name, part in cached.items()},
            hit_gb={name: 100.0 * part for name, part in data.draw(jobs).items()},
            read_gb={name: 400.0 * part for name, part in data.draw(jobs).items()},
            rate_mbps={name: 300.0 * part for name, part in data.draw(jobs).items()},
        )


class SharedLives(Lives):
    """A few jobs that differ little, so that most of them may share."""

    @rule(seconds=st.sampled_from([1.0, 300.0, 1e6]))
    def regroup(self, seconds):
        if self.ledger.in_order:
            with pytest.raises(ValueError, match="regroup: "):
                self.scheduler.regroup(self.now, seconds)
        else:
            self.scheduler.regroup(self.now, seconds)

    @precondition(lambda self: self.blocking == "best-effort" and not self.ledger.in_order)
    @rule()
    def no_job_waits_that_could_share(self):
        self.decide(0, None)
        for name in self.scheduler:
            changes = self.scheduler.explain(name).changes
            assert all(change.kind != "share" for change in changes)

    @initialize(
        parts=st.sampled_from([name for name in sorted(COMPOSITIONS) if "sharing" in name]),
        blocking=st.sampled_from(["fifo", "best-effort"]),
        limit=st.sampled_from(["runtime", "max"]),
        immediate=st.booleans(),
    )
    def begin(self, parts, blocking, limit, immediate):
        super().begin(parts, blocking, limit, immediate)

    @rule(
        tenant=st.sampled_from(TENANTS),
        roles=st.sampled_from(["four", "gang", "pairs"]),
        urgent=st.booleans(),
        guaranteed=st.booleans(),
        stages=st.sampled_from(sorted(STAGES)),
    )
    def submit(self, tenant, roles, urgent, guaranteed, stages):
        names = (f"s{number}" for number in count())
        job = make_job(
            next(name for name in names if name not in self.ledger.jobs),
            tenant,
            roles,
            priority=int(urgent and guaranteed),
            guaranteed=guaranteed,
            stages=STAGES[stages],
            data=DATA["text"],
        )
        self.scheduler.submit(job, self.now)
        self.ledger.submit(job)


class HeldLives(Lives):
    """Nothing is idle for long, and victims take time to stop: much is held for others."""

    @initialize(
        parts=st.sampled_from([name for name in sorted(COMPOSITIONS) if name != "queues"]),
        blocking=st.sampled_from(["fifo", "best-effort"]),
        limit=st.sampled_from(["runtime", "max"]),
        fills=st.lists(
            st.tuples(
                st.sampled_from(TENANTS),
                st.sampled_from(["one", "two", "four", "nic", "leader", "elastic"]),
                st.booleans(),
                st.sampled_from(sorted(STAGES)),
            ),
            min_size=3,
            max_size=9,
        ),
    )
    def begin(self, parts, blocking, limit, fills):
        super().begin(parts, blocking, limit, False)
        self.numbers = (f"h{number}" for number in count())
        for tenant, roles, guaranteed, stages in fills:
            self.come(tenant, roles, guaranteed=guaranteed, stages=STAGES[stages])
        self.decide(0, None)

    def come(self, tenant, roles, **arguments):
        job = make_job(next(self.numbers), tenant, roles, **arguments)
        job = enforced(self.scheduler, job)
        self.scheduler.submit(job, self.now)
        self.ledger.submit(job)
        if job.name not in self.scheduler:
            self.rejected.add(job.name)

    @rule(
        tenant=st.sampled_from(TENANTS),
        roles=st.sampled_from(["one", "two", "four", "gang", "pairs", "nic", "elastic"]),
        priority=st.integers(0, 2),
        guaranteed=st.sampled_from([True, True, False]),
        rack=st.booleans(),
    )
    def need(self, tenant, roles, priority, guaranteed, rack):
        self.come(tenant, roles, priority=priority, guaranteed=guaranteed, rack=rack)
        self.decide(0, None)

    @precondition(lambda self: self.ledger.promised)
    @rule()
    def stop_all(self):
        """All victims stop, and the jobs that they stop for start."""
        for name in sorted(self.ledger.stopping):
            self.scheduler.stopped(name, self.now)
            self.ledger.ended(name)
        self.decide(1, None)


TestHeldLives = HeldLives.TestCase
TestHeldLives.settings = examples(60, stateful_step_count=30)


class ChangingLives(Lives):
    """A full cluster, under which the parts change."""

    submit = fail = fail_one_pod = end_while_stopping = move = refused = None
    cancel_a_reserved_job = end_after_stopping = branch = None

    @initialize(
        parts=st.sampled_from([name for name in sorted(COMPOSITIONS) if name != "queues"]),
        limit=st.sampled_from(["runtime", "max"]),
        immediate=st.sampled_from([False, True, False]),
        weak=st.booleans(),
    )
    def begin(self, parts, limit, immediate, weak):
        super().begin(parts, "best-effort", limit, immediate)
        for i in range(4):
            self.come("ab"[i % 2], "four", 0, not weak, False, "evenly")

    @rule(
        tenant=st.sampled_from(TENANTS),
        roles=st.sampled_from(["four", "gang", "pairs", "elastic", "huge"]),
        priority=st.integers(0, 1),
        guaranteed=st.sampled_from([True, False, True]),
        rack=st.booleans(),
        stages=st.sampled_from(["", "reads", "computes"]),
    )
    def come(self, tenant, roles, priority, guaranteed, rack, stages):
        """A job is submitted, and what it may have is decided at once."""
        super().submit_one(
            self.unused("j"),
            tenant,
            roles,
            priority=priority,
            guaranteed=guaranteed,
            rack=rack,
            stages=STAGES[stages],
        )
        self.decide(1, None)

    def set_node(self, node, healthy):
        """Nodes come and go often."""


TestChangingLives = ChangingLives.TestCase
TestChangingLives.settings = examples(60, stateful_step_count=20)
TestLives = Lives.TestCase
TestSharedLives = SharedLives.TestCase
TestSharedLives.settings = examples(40, stateful_step_count=40)
TestLives.settings = examples(60, stateful_step_count=40)
