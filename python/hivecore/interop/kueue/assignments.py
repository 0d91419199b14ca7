"""Reads and writes a TopologyAssignment: the number of a pod set's pods in each domain."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from hivecore._arguments import as_choice, as_int, as_mapping, as_text, as_tuple
from hivecore._record import Names, Record
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kueue.names import HOSTNAME
from hivecore.interop.kueue.topologies import KueueTopology
from hivecore.topology import TopologyDecision

__all__ = [
    "AssignmentVersion",
    "TopologyAssignment",
    "read_assignment",
    "topology_assignment",
    "write_assignment",
]

#: The API version of a written assignment.
AssignmentVersion = Literal["v1beta1", "v1beta2"]

_MOST = 2**31 - 1
_DOMAINS = 100_000  # of a slice, by the API's definition
_SLICES = 1000


def _domain(value: Any, name: str) -> tuple[tuple[str, ...], int]:
    pair = as_tuple(value, name)
    if len(pair) != 2:
        raise ValueError(f"{name}: values and a count are two things, not {len(pair)}")
    values, count = pair
    texts = tuple([as_text(value, name) for value in as_tuple(values, name)])
    return texts, as_int(count, name, 1, _MOST)


class TopologyAssignment(Record, frozen=True):
    """The number of pods in each domain of the lowest level.

    :param levels: node labels, from wide to narrow.
    :param domains: (label values, number of pods) in the order of ranks.
    :raises ValueError: there is no level, or a domain has no pods or a wrong number of values.
    :raises TypeError: an argument has a wrong type.

    >>> from hivecore.interop.kueue import TopologyAssignment
    >>> TopologyAssignment(("rack",), ((("r1",), 2), (("r2",), 1))).selectors()
    ({'rack': 'r1'}, {'rack': 'r1'}, {'rack': 'r2'})
    """

    levels: Names
    domains: tuple[Annotated[tuple[tuple[str, ...], int], _domain], ...]

    def __post_init__(self) -> None:
        self._check()
        for values, _ in self.domains:
            if len(values) != len(self.levels):
                raise ValueError(f"domains: {len(values)} values are not those of {self.levels}")
        if not self.levels:
            raise ValueError("levels: there is none")

    def selectors(self, extra: Mapping[str, str] | None = None) -> tuple[dict[str, str], ...]:
        """Return the node selector of each pod, by rank.

        :param extra: labels for all pods, such as ``flavor_labels`` of the topology; those of the
            assignment take precedence.
        :raises TypeError: ``extra`` is not a mapping.
        """
        more = {} if extra is None else dict(as_mapping(extra, "extra"))
        return tuple(
            {**more, **dict(zip(self.levels, values, strict=True))}
            for values, count in self.domains
            for _ in range(count)
        )


def topology_assignment(topology: KueueTopology, decision: TopologyDecision) -> TopologyAssignment:
    """Return the assignment of a decision to bind.

    :raises ValueError: the decision is not to bind, or has a node that is not in the topology.
    :raises TypeError: an argument has a wrong type.

    As in Kueue, if the lowest level is ``kubernetes.io/hostname``, the assignment has only that
    level. Domains are in the order of ranks, with the pods of their nodes added up. Cost: O(nodes
    of the gang).

    >>> from hivecore.interop.kueue import read_topology, topology_assignment
    >>> from hivecore.topology import TopologyRequest
    >>> topology = read_topology(
    ...     {"metadata": {"name": "gpus"}, "spec": {"levels": [{"nodeLabel": "rack"}]}},
    ...     [{"metadata": {"name": f"n{i}", "labels": {"rack": f"r{i // 2}"}}} for i in range(4)],
    ... )
    >>> topology.network.set_slots([1, 1, 1, 1])
    >>> decision = topology.network.schedule(TopologyRequest("train", 3))
    >>> topology_assignment(topology, decision).domains
    ((('r0',), 2), (('r1',), 1))
    """
    if not isinstance(topology, KueueTopology):
        raise TypeError(f"topology must be a KueueTopology, not {type(topology).__name__}")
    if not isinstance(decision, TopologyDecision):
        raise TypeError(f"decision must be a TopologyDecision, not {type(decision).__name__}")
    if decision.outcome != "bind":
        raise ValueError(f"decision.outcome must be 'bind', not {decision.outcome!r}")
    first = len(topology.levels) - 1 if topology.levels[-1] == HOSTNAME else 0
    counts: dict[tuple[str, ...], int] = {}
    for share in decision.placement:
        if share.node not in topology.values:
            raise ValueError(f"decision: node {share.node!r} is not in the topology")
        values = topology.values[share.node][first:]
        counts[values] = counts.get(values, 0) + share.pods
    return TopologyAssignment(topology.levels[first:], tuple(counts.items()))


def write_assignment(
    assignment: TopologyAssignment, *, version: AssignmentVersion = "v1beta2"
) -> dict[str, Any]:
    """Return the field ``topologyAssignment`` of a Workload's admission as plain data.

    :param version: of the API. "v1beta1" lists domains; "v1beta2" has slices, in which common
        prefixes and suffixes are written once.
    :raises ValueError: ``version`` is unknown, or there are more domains than 1,000 slices hold.
    :raises TypeError: ``assignment`` is not a TopologyAssignment.

    >>> from hivecore.interop.kueue import TopologyAssignment, write_assignment
    >>> gang = TopologyAssignment(("block", "rack"), ((("b1", "r1"), 4), (("b1", "r2"), 4)))
    >>> write_assignment(gang)["slices"][0]["valuesPerLevel"]
    [{'universalValue': 'b1'}, {'prefix': 'r', 'roots': ['1', '2']}]
    """
    if not isinstance(assignment, TopologyAssignment):
        raise TypeError(f"assignment must be a TopologyAssignment, not {type(assignment).__name__}")
    as_choice(version, "version", get_args(AssignmentVersion))
    levels, domains = list(assignment.levels), assignment.domains
    if version == "v1beta1":
        rows = [{"values": list(values), "count": count} for values, count in domains]
        return {"levels": levels, "domains": rows}
    if len(domains) > _SLICES * _DOMAINS:
        raise ValueError(f"assignment: has {len(domains)} domains, allowed are 100,000,000")
    parts = [domains[i : i + _DOMAINS] for i in range(0, len(domains), _DOMAINS)]
    return {"levels": levels, "slices": [_slice(part, len(levels)) for part in parts]}


def _slice(domains: Sequence[tuple[tuple[str, ...], int]], levels: int) -> dict[str, Any]:
    counts = [count for _, count in domains]
    columns = [[values[level] for values, _ in domains] for level in range(levels)]
    if len(set(counts)) == 1:
        pods: dict[str, Any] = {"universalPodCount": counts[0]}
    else:
        pods = {"podCounts": counts}
    return {
        "domainCount": len(domains),
        "valuesPerLevel": [_column(column) for column in columns],
        **pods,
    }


def _column(values: list[str]) -> dict[str, Any]:
    if len(set(values)) == 1:
        return {"universalValue": values[0]}
    prefix = _common(values)
    rest = [value[len(prefix) :] for value in values]
    suffix = _common([value[::-1] for value in rest])[::-1]
    column: dict[str, Any] = {}
    if prefix:
        column["prefix"] = prefix
    if suffix:
        column["suffix"] = suffix
    return {**column, "roots": [value[: len(value) - len(suffix)] for value in rest]}


def _common(values: list[str]) -> str:
    """Return the common prefix: that of the lowest and the highest value."""
    low, high = min(values), max(values)
    ends = (i for i, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1])
    return low[: next(ends, len(low))]


def read_assignment(assignment: Mapping[str, Any]) -> TopologyAssignment:
    """Return a Workload's ``topologyAssignment``, in the format of v1beta1 or v1beta2.

    :raises ValueError: the numbers of values, counts and domains disagree, or a domain is listed
        twice. The message has the path.
    :raises TypeError: a field has a wrong type.

    >>> from hivecore.interop.kueue import read_assignment
    >>> values = [{"prefix": "n", "roots": ["1", "2"]}]
    >>> part = {"domainCount": 2, "valuesPerLevel": values, "universalPodCount": 8}
    >>> read_assignment({"levels": ["kubernetes.io/hostname"], "slices": [part]}).domains
    ((('n1',), 8), (('n2',), 8))
    """
    field = Field(as_mapping(assignment, "assignment"))
    levels = tuple(level.name() for level in field["levels"].entries())
    if not levels:
        raise field["levels"].error("there is none")
    if ("domains" in field) == ("slices" in field):
        raise field.error("must have domains or slices")
    domains: list[tuple[tuple[str, ...], int]] = []
    field.only("levels", "domains", "slices")
    for entry in field["domains"].entries():
        entry.only("values", "count")
        values = tuple(value.text() for value in entry["values"].entries())
        _same(entry["values"], len(values), len(levels), "values", "levels")
        domains.append((values, entry["count"].integer(1, _MOST)))
    for part in field["slices"].entries():
        domains.extend(_domains_of(part, len(levels)))
    if len({values for values, _ in domains}) < len(domains):
        raise field.error("a domain is there twice")
    return TopologyAssignment(levels, tuple(domains))


def _domains_of(part: Field, levels: int) -> list[tuple[tuple[str, ...], int]]:
    part.only("domainCount", "valuesPerLevel", "podCounts", "universalPodCount")
    count = part["domainCount"].integer(1, _DOMAINS)
    places = part["valuesPerLevel"].entries()
    _same(part["valuesPerLevel"], len(places), levels, "entries", "levels")
    if count > 1 and not any("roots" in place for place in places):
        raise part.error(f"its {count} domains are one and the same")
    columns = [_values(place, count) for place in places]
    if ("podCounts" in part) == ("universalPodCount" in part):
        raise part.error("must have podCounts or universalPodCount")
    if "podCounts" in part:
        pods = [entry.integer(1, _MOST) for entry in part["podCounts"].entries()]
        _same(part["podCounts"], len(pods), count, "counts", "domains")
    else:
        pods = [part["universalPodCount"].integer(1, _MOST)] * count
    return list(zip(zip(*columns, strict=True), pods, strict=True))


def _values(field: Field, count: int) -> list[str]:
    """Return the values of a level."""
    field.only("universalValue", "roots", "prefix", "suffix")
    if ("roots" in field) == ("universalValue" in field):
        raise field.error("must have roots or universalValue")
    if "universalValue" in field:
        if "prefix" in field or "suffix" in field:
            raise field.error("a universalValue has neither prefix nor suffix")
        return [field["universalValue"].text()] * count
    roots = [root.text() for root in field["roots"].entries()]
    _same(field["roots"], len(roots), count, "roots", "domains")
    prefix, suffix = field["prefix"].text(), field["suffix"].text()
    return [f"{prefix}{root}{suffix}" for root in roots]


def _same(field: Field, have: int, want: int, what: str, of: str) -> None:
    if have != want:
        raise field.error(f"{have} {what} are not those of {want} {of}")
