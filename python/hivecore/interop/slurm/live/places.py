"""Where Slurm allows the jobs of a live queue to run: nodes by type of GPU, partition, features.

What hivecore cannot keep to is left to Slurm. A job that shares its nodes with no other asks for
all of their GPUs. One list of nodes of a job, those to use or those to
exclude, is overwritten when the job gets its place. Whether such a list is its user's is what the
submit plugin notes, or else what is likely: a job that was never placed waits with its user's list.
"""

from collections.abc import Collection, Iterable

from hivecore._stateful import counted
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.slurm.live.features import has_features
from hivecore.interop.slurm.live.queue import SlurmJob, SlurmNode
from hivecore.scheduler import Where

__all__ = ["Places"]

_ANYWHERE = Where()


class Places:
    """Says of jobs where they may run.

    :param how: as of `commands`; "": what it is, or was, is unknown.
    :param typed: as of `commands`; then types of GPUs are no wish of a job.
    """

    def __init__(self, how: str, typed: bool = False) -> None:
        self._overwritten = {"require": "nodelist", "exclude": "exclude"}.get(how, "")
        self._typed = typed
        self._nodes: tuple[SlurmNode, ...] = ()  # those with GPUs
        self._placed: set[str] = set()  # jobs of which this process has overwritten the list
        self._left: set[str] = set()
        #: by all that it follows from the nodes, and the GPUs of each if they are taken whole
        self._known: dict[tuple[object, ...], tuple[Where, int]] = {}

    def renew(self, nodes: Iterable[SlurmNode]) -> bool:
        """Take up the nodes; returns whether jobs have to be read again."""
        new = tuple(node.replace(state="", healthy=True) for node in nodes if node.gpus)
        if new == self._nodes:
            return False
        self._nodes, self._known = new, {}
        return True

    def overwrites(self, name: str) -> None:
        """Note that a job gets a place now."""
        self._placed.add(name)

    def forget_others(self, kept: Collection[str]) -> None:
        """Forget all jobs but these."""
        self._placed.intersection_update(kept)
        self._left.intersection_update(kept)

    def with_place(self, job: SlurmJob, excluded: tuple[str, ...] = ()) -> SlurmJob:
        """The job with the nodes where it may run, or left to Slurm, or with its problem.

        :param excluded: the nodes that Slurm excludes for it.
        """
        if job.job is None:
            return job
        try:
            place = self._where(job, excluded if self._is_users("exclude", excluded, job) else ())
        except ValueError as error:
            self._left.add(job.id)
            kept = job.job.replace(preemptible=False, guaranteed=True)
            return job.replace(job=kept, left=True, problem=f"is left to Slurm: {error}")
        where, size = place
        if where is not _ANYWHERE and not where.nodes:
            words = [f"of partition {', '.join(job.partitions)}"] if job.partitions else []
            words += [f"with {job.features}"] if job.features else []
            words += [f"with GPUs of type {kind}" for kind in job.types if not self._typed]
            words += ["that it does not exclude"] if excluded else []
            words += [f"with {counted(job.each, 'GPU')}"] if job.whole else []
            return job.replace(job=None, problem=f"there is no node {' '.join(words)}")
        changes: dict[str, object] = {} if where is _ANYWHERE else {"where": where}
        if job.whole:
            changes["roles"] = [role.replace(gpus=size) for role in job.job.roles]
        note = "hivecore:exclude" if job.note and excluded else job.note
        return job.replace(job=job.job.replace(**changes), note=note) if changes else job

    def _is_users(self, word: str, nodes: Collection[str], job: SlurmJob) -> bool:
        """Whether a list of nodes is the user's own."""
        if not nodes or self._overwritten not in ("", word):
            return bool(nodes)
        if job.lists is not None:
            return word in job.lists
        if word == "exclude" and not self._overwritten:
            return True  # by default a broker overwrites the other list
        new = job.waits and not job.restarts and job.id not in self._placed
        return new or job.id in self._left

    def _where(self, job: SlurmJob, excluded: tuple[str, ...]) -> tuple[Where, int]:
        """The nodes that a job may use, and how many GPUs each has if it takes whole nodes."""
        if self._is_users("nodelist", job.required, job):
            raise ValueError(f"it asks for nodes by name, {show(','.join(job.required))}")
        if excluded and self._overwritten == "exclude":
            raise ValueError("it excludes nodes, and --how exclude would overwrite these")
        if job.reservation:
            raise ValueError(f"it has the reservation {show(job.reservation)}")
        types = () if self._typed else job.types
        if len(types) > 1:
            raise ValueError(f"it asks for several types of GPUs, {', '.join(types)}")
        if job.beyond:
            raise ValueError(job.beyond)
        each = job.each if job.whole else 0
        key = (job.partitions, job.features, types, excluded, job.count == 1, each)
        if key not in self._known:
            nodes = [node for node in self._nodes if _allows(node, job, excluded)]
            of_type = [node for node in nodes if not types or {*node.types} == {*types}]
            if not of_type and any({*types} & {*node.types} for node in nodes):
                raise ValueError(f"nodes with GPUs of type {types[0]} have other types as well")
            large = [node for node in of_type if node.gpus >= each]
            sizes = sorted({node.gpus for node in large}) if each else [0]
            if len(sizes) > 1:
                both = " or ".join(map(str, sizes))
                raise ValueError(f"it asks for whole nodes, and these have {both} GPUs")
            names = [node.name for node in large]
            where = _ANYWHERE if names and len(large) == len(self._nodes) else Where(nodes=names)
            self._known[key] = where, max(sizes, default=0)
        return self._known[key]


def _allows(node: SlurmNode, job: SlurmJob, excluded: Collection[str]) -> bool:
    return (
        has_features(job.features, node.features, alone=job.count == 1)
        and (not job.partitions or not {*job.partitions}.isdisjoint(node.partitions))
        and node.name not in excluded
    )
