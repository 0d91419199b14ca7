"""Any history of jobs whose pods fail, come and leave one by one, with a client that knows pods
only from actions.
"""

import copy

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from profiles import examples
from scheduler.lives import MACHINE, RACKS, machines, network, quota_tree

from hivecore.scheduler import (
    Job,
    Move,
    Preempt,
    Role,
    Scheduler,
    Shrink,
    Start,
    Stop,
    TakeOver,
    Where,
)
from hivecore.verify import verify_actions


class ElasticLives(RuleBasedStateMachine):
    @initialize(immediate=st.booleans(), quotas=st.booleans(), devices=st.booleans())
    def begin(self, immediate, quotas, devices):
        self.scheduler = Scheduler(
            topology=network(),
            quotas=quota_tree() if quotas else None,
            devices=machines() if devices else None,
            immediate=immediate,
        )
        self.now, self.jobs, self.immediate = 0.0, {}, immediate
        self.places = {}  # job -> pod -> its node
        self.stopping = set()  # jobs, and pairs of a job and a pod

    @rule(
        least=st.integers(1, 2),
        more=st.integers(0, 2),
        most=st.none() | st.integers(0, 3),
        spares=st.integers(0, 1),
        gpus=st.sampled_from([1, 1, 2, 4]),
        how=st.sampled_from(["job", "pod", "pod-then-job"]),
        guaranteed=st.booleans(),
        tenant=st.sampled_from("ab"),
        rack=st.booleans(),
    )
    def submit(self, least, more, most, spares, gpus, how, guaranteed, tenant, rack):
        pods = least + more
        role = Role(
            "w",
            pods,
            gpus=gpus,
            min_pods=least,
            max_pods=None if most is None else pods + most,
            spares=spares if how != "job" else 0,
        )
        where = Where(must="rack" if rack else "")
        name = f"j{len(self.jobs)}"
        job = Job(name, tenant, [role], guaranteed=guaranteed, on_failure=how, where=where)
        self.scheduler.submit(job, self.now)
        self.jobs[name] = job

    @rule(later=st.integers(0, 2))
    def decide(self, later):
        self.now += later
        before = copy.copy(self.scheduler)
        actions = self.scheduler.decide(self.now)
        assert Scheduler.from_bytes(before.to_bytes()).decide(self.now) == actions
        verify_actions(actions, self.jobs, before)
        assert self.scheduler.decide(self.now) == []
        for action in actions:
            self.follow(action)
        for name in self.scheduler:
            status = self.scheduler.status(name)
            if status.state == "running" and not status.for_job:
                placed = {
                    (pod.role, pod.index): pod.node
                    for pod in status.pods
                    if not self.is_held(f"{name}/{pod.role}/{pod.index}")
                }
                gone = {pod for job, pod in filter(self.is_pod, self.stopping) if job == name}
                mine = self.places[name].items()
                assert {at for at in placed.items() if at[0] not in gone} <= mine
                assert {pod for pod, _ in mine} - gone <= placed.keys()

    def is_held(self, pod):
        """Whether a job or an extra pod has stopped and its resources are held."""
        try:
            return self.scheduler.status(pod).has_stopped
        except KeyError:
            return False

    @staticmethod
    def is_pod(entry):
        return isinstance(entry, tuple)

    def follow(self, action):
        """The client follows the actions."""
        pods = {(pod.role, pod.index): pod.node for pod in getattr(action, "pods", ())}
        pods_of_job = self.places.setdefault(getattr(action, "job", ""), {})
        if isinstance(action, Preempt):
            if self.immediate:
                pods_of_job.clear()
            else:
                self.stopping.add(action.job)
        elif isinstance(action, Shrink) and not self.immediate:
            self.stopping |= {(action.job, pod) for pod in pods}
        elif isinstance(action, Stop | Shrink):
            for pod in pods:
                pods_of_job.pop(pod, None)
                self.stopping.discard((action.job, pod))
        elif isinstance(action, TakeOver):
            for pod in action.before:
                assert pods_of_job.pop((pod.role, pod.index), pod.node) == pod.node
        elif isinstance(action, Move):
            pods_of_job.clear()
        if isinstance(action, Start | Move | TakeOver):
            pods_of_job |= pods

    def running(self):
        return [name for name in self.scheduler if self.scheduler.state(name) == "running"]

    @precondition(lambda self: self.running())
    @rule(data=st.data(), how=st.sampled_from(["finish", "cancel", "fail"]))
    def end(self, data, how):
        name = data.draw(st.sampled_from(self.running()))
        getattr(self.scheduler, how)(name, self.now)
        self.gone(name)

    def gone(self, name):
        self.places.pop(name, None)
        self.stopping = {entry for entry in self.stopping if name not in (entry, entry[0])}

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def fail_pod(self, data):
        name = data.draw(st.sampled_from(self.running()))
        pods = self.scheduler.status(name).pods
        pod = data.draw(st.sampled_from(pods))
        if self.places.get(name, {}).get((pod.role, pod.index)) != pod.node:
            return  # it has another number now, which the next decision reports
        self.scheduler.fail(name, self.now, f"{pod.role}/{pod.index}")
        if name in self.scheduler and self.scheduler.status(name).pods:
            self.places.get(name, {}).pop((pod.role, pod.index), None)
            self.stopping.discard((name, (pod.role, pod.index)))
        else:
            self.gone(name)

    @precondition(lambda self: self.stopping)
    @rule(data=st.data())
    def stop(self, data):
        entry = data.draw(st.sampled_from(sorted(self.stopping, key=str)))
        self.stopping.discard(entry)
        if self.is_pod(entry):
            name, (role, number) = entry
            self.places.get(name, {}).pop((role, number), None)
            if (status := self.status(f"{name}/{role}/{number}")) and status.for_job:
                self.scheduler.stopped(name, self.now, f"{role}/{number}")
        elif (status := self.status(entry)) and status.for_job and not status.has_stopped:
            self.scheduler.stopped(entry, self.now)
            self.gone(entry)

    def status(self, name):
        try:
            status = self.scheduler.status(name)
        except KeyError:
            return None
        return None if status.has_stopped else status

    @rule(node=st.sampled_from(sorted(RACKS)[:4]), healthy=st.booleans())
    def set_node(self, node, healthy):
        if node in self.scheduler.topology.nodes:
            self.scheduler.set_node(node, healthy, self.now)

    @rule(node=st.sampled_from(sorted(RACKS)[:4]))
    def change_nodes(self, node):
        arguments = {"labels": {"rack": RACKS[node]}, "free": {"gpu": 4}}
        if self.scheduler.devices is not None:
            arguments["inventory"] = MACHINE
        if node in self.scheduler.topology.nodes:
            self.scheduler.remove_node(node, self.now)
        else:
            self.scheduler.add_node(node, self.now, **arguments)

    @invariant()
    def all_adds_up(self):
        if hasattr(self, "scheduler"):
            self.scheduler.check()
            for name in self.scheduler:
                nodes = {pod.node for pod in self.scheduler.status(name).pods}
                if self.scheduler.job(name).where.must:
                    assert len({RACKS[node] for node in nodes}) <= 1
            running = [name for name in self.running() if not self.is_held(name)]
            for name in self.places.keys() - running:
                self.gone(name)


TestElasticLives = ElasticLives.TestCase
TestElasticLives.settings = examples(50, stateful_step_count=30)
