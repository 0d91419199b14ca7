"""How far apart a pod and the other pods of its job have to be: anti-affinity and spreading.

Two rules say exactly what `Role.per_node` says. A required anti-affinity on the hostname that
selects the pod itself allows one such pod on a node. A spread constraint on the hostname counts
from the node with the fewest pods, which has none as long as ``minDomains`` is at least the number
of pods: then each node gets ``maxSkew`` at most. All other rules are named.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hivecore._stateful import counted
from hivecore.interop.kubernetes.fields import Field

__all__ = ["NO_SPREAD", "PodSpread", "read_pod_spread"]

_HOSTNAME = "kubernetes.io/hostname"
_MOST = 2**31 - 1
#: Labels with which controllers name the job of a pod.
_OF_JOB = frozenset(
    (
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
        "controller-uid",
        "job-name",
        "jobset.sigs.k8s.io/job-key",
        "leaderworkerset.sigs.k8s.io/group-key",
        "pod-group.scheduling.sigs.k8s.io/name",
        "ray.io/cluster",
        "training.kubeflow.org/job-name",
        "volcano.sh/job-name",
    )
)
_OPERATORS = {name: name for name in ("In", "NotIn", "Exists", "DoesNotExist")}


class PodSpread(NamedTuple):
    """How far apart a pod and the other pods of its job have to be.

    :param per_node: how many of them a node may have, whatever their number; ``None``: any number.
    :param skews: pairs of how many a node may have, and of how many pods at most that is so.
    :param unread: the rules that say something else, line by line.
    """

    per_node: int | None
    skews: tuple[tuple[int, int], ...]
    unread: tuple[str, ...]

    def most(self, pods: int) -> int | None:
        """How many of so many pods a node may have; ``None``: any number.

        >>> PodSpread(None, ((2, 4),), ()).most(4)
        2
        """
        known = [skew for skew, least in self.skews if least >= pods]
        known += [] if self.per_node is None else [self.per_node]
        return min(known, default=None) if pods > 1 else None

    def left_out(self, pods: int) -> tuple[str, ...]:
        """The rules that say something else of so many pods."""
        skews = [
            f"a spread constraint allows {counted(skew, 'more pod')} on a node than on the emptiest"
            for skew, least in self.skews
            if least < pods
        ]
        return *self.unread, *skews


NO_SPREAD = PodSpread(None, (), ())


def read_pod_spread(pod: Field) -> PodSpread:
    """The rules of a pod, or of the template of pods, that keep it apart from pods like it.

    :raises ValueError: a rule cannot be read.
    :raises TypeError: something is of a wrong type.

    >>> from hivecore.interop.kubernetes.fields import Field
    >>> from hivecore.interop.kubernetes.pod_spread import read_pod_spread
    >>> labels = {"job-name": "train"}
    >>> term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    >>> rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    >>> spec = {"affinity": {"podAntiAffinity": rule}}
    >>> read_pod_spread(Field({"metadata": {"labels": labels}, "spec": spec})).per_node
    1
    """
    spec = pod["spec"]
    terms = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    constraints = spec["topologySpreadConstraints"]
    if terms.value is None and constraints.value is None:
        return NO_SPREAD
    apart, other = False, list[str]()
    for term in terms.entries():
        is_read, others = _read(term, pod["metadata"])
        apart |= is_read
        other += [f"an anti-affinity {text}" for text in others]
    skews = []
    for constraint in constraints.entries():
        skew, least = constraint["maxSkew"].integer(1, _MOST), constraint["minDomains"]
        is_read, others = _read(constraint, pod["metadata"])
        if is_read:
            skews.append((skew, 1 if least.value is None else least.integer(1, _MOST)))
        other += [f"a spread constraint {text}" for text in others]
    return PodSpread(1 if apart else None, tuple(skews), tuple(dict.fromkeys(other)))


def _read(rule: Field, metadata: Field) -> tuple[bool, tuple[str, ...]]:
    """Whether a rule keeps pods like this one on different nodes, and what else it says."""
    key, own = rule["topologyKey"].name(), metadata["namespace"].text()
    if rule["whenUnsatisfiable"].text() == "ScheduleAnyway":
        return False, ("is a wish",)
    if key != _HOSTNAME:
        return False, (f"is about {key}, not about nodes",)
    namespaces = {name.text() for name in rule["namespaces"].entries()}
    if namespaces - {own} or rule["namespaceSelector"].value is not None:
        return False, ("is about pods of other namespaces",)
    known = _selecting(rule, metadata["labels"].texts())
    if known is None:
        return False, ("selects other pods",)
    return True, () if known & _OF_JOB else ("may select pods of other jobs, which do not count",)


def _selecting(rule: Field, labels: Mapping[str, str]) -> set[str] | None:
    """The labels of which a rule says the value, if it selects pods with these labels."""
    selector = rule["labelSelector"]
    if selector.value is None or rule["mismatchLabelKeys"].entries():
        return None
    requirements = [*_requirements(selector)]
    if not all(_holds(labels.get(label), how, of) for label, how, of in requirements):
        return None
    keys = {key.text() for key in rule["matchLabelKeys"].entries()} & labels.keys()
    exact = {label for label, how, values in requirements if how == "In" and len(values) == 1}
    return keys | exact


def _requirements(selector: Field) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Label, operator and values."""
    for label, value in selector["matchLabels"].texts().items():
        yield label, "In", frozenset((value,))
    for expression in selector["matchExpressions"].entries():
        values = frozenset(value.text() for value in expression["values"].entries())
        operator = expression["operator"].choice(_OPERATORS)
        if operator is None:
            raise expression["operator"].error("is missing")
        yield expression["key"].name(), operator, values


def _holds(value: str | None, operator: str, values: frozenset[str]) -> bool:
    """Whether a label with this value, or without one, is as required."""
    if operator in ("Exists", "DoesNotExist"):
        return (value is None) == (operator == "DoesNotExist")
    return (value in values) == (operator == "In")
