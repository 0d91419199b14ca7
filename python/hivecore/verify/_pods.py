"""Gangs start whole, where they may be, and close enough together."""

from collections import Counter

from hivecore._stateful import counted
from hivecore.scheduler import Job, PlacedPod, Promote, Start
from hivecore.verify._state import Has, Lone, State, amounts_of, hold, pod_name

__all__ = [
    "check_balance",
    "check_extra",
    "check_gang",
    "check_nodes",
    "check_per_node",
    "check_sharing",
    "check_topology",
]


def check_gang(action: Start | Promote, job: Job, state: State, *, moves: bool = False) -> None:
    """Check that each role starts whole or with its minimum, and no pod starts twice.

    The jobs that it waits for must have started or ended.
    """
    runs = state.has.get(job.name)
    stops = job.name in state.stopping
    hold(not stops, "gang", f"{job.name!r} has to stop, and takes more pods")
    known = {role.name: role for role in job.roles}
    starting = Counter(
        (pod.role, pod.index) for pod in (*action.pods, *(runs.pods if runs else ()))
    )
    for pod in action.pods:
        name = pod_name(job, pod)
        right = pod.role in known and pod.index in known[pod.role].numbers
        hold(right, "gang", f"there is no pod {name!r}")
        hold(starting[pod.role, pod.index] == 1, "gang", f"pod {name!r} starts twice")
    for role in job.roles if not runs or not runs.pods else ():
        count = sum(pod.role == role.name for pod in action.pods)
        least = len(role.first_numbers)
        what = f"role {role.name!r} of {job.name!r} starts with {counted(count, 'pod')} of {least}"
        hold(count >= least, "gang", what)
    has_begun = moves or isinstance(action, Promote) or bool(runs and runs.pods)
    for other in () if has_begun else job.after:
        started = other not in state.known or bool(other in state.has and state.has[other].pods)
        hold(started, "gang", f"{job.name!r} starts before {other!r}")


def check_extra(action: Start, job: Job, lone: Job, state: State) -> None:
    """An extra pod starts once, by itself, while its job runs and need not stop."""
    runs = job.name in state.has and bool(state.has[job.name].pods)
    hold(runs, "gang", f"{lone.name!r} starts, and its job does not run")
    hold(job.name not in state.stopping, "gang", f"{job.name!r} has to stop, and takes more pods")
    alone = len(action.pods) == 1 and lone.name not in state.has
    hold(alone, "gang", f"pod {lone.name!r} starts twice")


def check_nodes(action: Start | Promote, job: Job, state: State) -> None:
    """Pods are on allowed, healthy nodes, within what the network has free there."""
    cells, network = state.before.cells, state.network
    bad_gpus = () if cells is None else cells.bad_leaves()
    resources = frozenset(() if network is None else network.resources)
    for pod in action.pods:
        name, node = pod_name(job, pod), pod.node
        right = not node or not job.where.nodes or node in job.where.nodes
        hold(right, "nodes", f"{name!r} may not be on {node!r}")
        for gpu in pod.gpus:
            hold((node, gpu) not in bad_gpus, "health", f"GPU {gpu} of {node!r} is bad")
        taken = resources & {"slots", *amounts_of(job, [pod], None)}
        if network is not None and (node or taken):
            hold(node in network.nodes, "nodes", f"{name!r}: there is no node {node!r}")
            hold(node not in network.unhealthy, "health", f"node {node!r} is bad")
            for resource, free in network.free(node).items():
                needed = state.taken[node][resource]
                what = f"{node!r} has {free} {resource} free, {needed} would be taken"
                hold(needed <= free, "nodes", what)


def check_per_node(job: Job, state: State) -> None:
    """No node has more pods of a role than allowed."""
    name = job.of if isinstance(job, Lone) else job.name
    entries = [state.has[key] for key in (name, *state.extras(name))]
    counts = Counter((pod.role, pod.node) for of in entries for pod in of.pods if pod.node)
    for role in job.roles:
        for (of_role, node), pods in counts.items():
            right = role.per_node is None or of_role != role.name or pods <= role.per_node
            number = counted(pods, "pod")
            what = f"{number} of role {of_role!r} of {name!r} on {node!r}, not {role.per_node}"
            hold(right, "nodes", what)


def check_topology(action: Start | Promote, job: Job, state: State) -> None:
    """One domain holds all pods of a job, and starting pods are multiples in each domain."""
    network, must = state.before.topology, job.where.must
    assert network is not None
    name = job.of if isinstance(job, Lone) else job.name
    entries = [state.has[key] for key in (name, *state.extras(name))]
    nodes = {pod.node for of in entries for pod in of.pods if pod.node}
    inside = any(nodes <= {*domain} for domain in network.domains(must))
    hold(inside, "topology", f"no {must!r} holds all of {job.name!r}")
    for layer, most in job.where.per_domain:
        for domain in network.domains(layer):
            count = sum(pod.node in domain for of in entries for pod in of.pods)
            hold(
                count <= most,
                "topology",
                f"{counted(count, 'pod')} in a {layer!r}, at most {most} may be",
            )
    pods = Counter(pod.node for pod in action.pods if pod.node)
    layers = ["", *network.layers, "node"]
    holding = [
        layer for layer in layers if any(pods.keys() <= {*d} for d in network.domains(layer))
    ]
    for layer, multiple in job.where.multiple:
        if layers.index(layer) >= layers.index(holding[-1]):
            for domain in network.domains(layer):
                count = sum(pods[node] for node in domain)
                what = f"{counted(count, 'pod')} in a {layer!r}, no multiple of {multiple}"
                hold(count % multiple == 0, "topology", what)


def check_balance(action: Start, job: Job, state: State) -> None:
    """With fewer pods in the fullest domain, the used domains could not hold the pods.

    Not checked where other rules limit domains, or devices limit nodes.
    """
    network, where = state.before.topology, job.where
    is_limited = where.multiple or where.per_domain or state.before.devices is not None
    if network is None or not where.balance or is_limited:
        return
    most: list[int] = []
    counts = Counter(pod.node for pod in action.pods if pod.node)
    role = next((pod.role for pod in action.pods if pod.node), "")
    for domain in network.domains(where.balance):
        count = sum(counts[node] for node in domain)
        room = sum(_room(job, role, node, counts[node], state) for node in domain) if count else 0
        most += [count + room] if count else []
    fullest = max(sum(counts[node] for node in of) for of in network.domains(where.balance))
    fewer = sum(min(count, fullest - 1) for count in most)
    what = f"{counted(fullest, 'pod')} in a {where.balance!r}, and fewer would do"
    hold(fewer < counts.total() or not counts, "topology", what)


def _room(job: Job, role_name: str, node: str, pods: int, state: State) -> int:
    """Return how many more pods of a role, as all of its job, fit on a node that has some."""
    network, (role,) = state.network, [role for role in job.roles if role.name == role_name]
    assert network is not None
    if node in network.unhealthy or (job.where.nodes and node not in job.where.nodes):
        return 0
    amounts = amounts_of(job, [PlacedPod(role.name, 0, node)], None) + Counter(slots=1)
    free = network.free(node)
    fit = [
        (free[name] - state.taken[node][name]) // amounts[name] for name in free if amounts[name]
    ]
    fit += [] if role.per_node is None else [role.per_node - pods]
    return max(0, int(min(fit, default=0)))


def check_sharing(action: Start, job: Job, state: State) -> None:
    """A job that shares has the pods of all jobs that it shares with; these keep running."""
    others = action.shares_with
    for name in others:
        right = name in state.has and name not in state.stopping
        hold(
            right, "sharing", f"{job.name!r} shares with {name!r}, which does not run or must stop"
        )
        same = tuple(state.has[name].pods) == action.pods
        hold(same, "sharing", f"{job.name!r} is elsewhere than {name!r}")
        mine, other = job.roles, state.has[name].job.roles
        hold(mine == other, "sharing", f"{job.name!r} asks for something else than {name!r}")
    expected = state.together.get(others[0], [others[0]])
    whole = set(others) == set(expected) and len(others) == len(expected)
    hold(
        whole, "sharing", f"{job.name!r} shares with {sorted(others)}, not with {sorted(expected)}"
    )
    state.join(job.name, others)
    state.has[job.name] = Has(job, list(action.pods))
