"""Nodes, and the selectors by which slices and devices choose them."""

from collections.abc import Mapping
from typing import Any, Literal, Self, TypeAlias

from hivecore.dra._reading import KubernetesRecord, read

__all__ = ["Node", "NodeSelector", "NodeSelectorRequirement", "NodeSelectorTerm"]

_NAME = "metadata.name"
_Operator: TypeAlias = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


class Node(KubernetesRecord, frozen=True):
    """A node, with what slices can select.

    :param name: of the node.
    :param labels: of the node.

    >>> from hivecore.dra import Node
    >>> Node.of({"metadata": {"name": "n1", "labels": {"zone": "a"}}})
    Node(name='n1', labels={'zone': 'a'})
    """

    name: str
    labels: Mapping[str, str] = {}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read a ``Node`` object; `ValueError` if it is invalid."""
        return read(cls, document, "metadata", api=("v1",))


class NodeSelectorRequirement(KubernetesRecord, frozen=True):
    """A rule for a label or a field of a node.

    :param key: the label, or ``metadata.name``.
    :param operator: "Gt": the label is an integer above the value, "Lt": below it. A missing label
        satisfies only "NotIn" and "DoesNotExist".
    :param values: at least one for "In" and "NotIn", a single integer for "Gt" and "Lt", none for
        "Exists" and "DoesNotExist".
    :raises ValueError: the values do not suit the operator.
    """

    key: str
    operator: _Operator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.operator in ("In", "NotIn") and not self.values:
            raise ValueError(f"values: {self.operator} needs one at least")
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise ValueError(f"values: {self.operator} takes none")
        if self.operator in ("Gt", "Lt"):
            numbers = [_number(text) for text in self.values]
            if len(numbers) != 1 or None in numbers:
                raise ValueError(f"values: {self.operator} needs a single integer")

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels satisfy the rule."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        number, bound = _number(value), _number(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


def _number(text: str | None) -> int | None:
    digits = (text or "").removeprefix("-").removeprefix("+")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) < 20
    return int(text or "") if is_number else None


class NodeSelectorTerm(KubernetesRecord, frozen=True):
    """Rules for labels and fields that must all hold; without rules, no node is selected."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()

    def __post_init__(self) -> None:
        for i, requirement in enumerate(self.match_fields):
            if requirement.key != _NAME or requirement.operator not in ("In", "NotIn"):
                raise ValueError(f"matchFields[{i}].key: only {_NAME} In or NotIn is allowed")

    def selects(self, node: Node) -> bool:
        """Whether the node satisfies all rules."""
        if not self.match_expressions and not self.match_fields:
            return False
        return all(rule.holds(node.labels) for rule in self.match_expressions) and all(
            rule.holds({_NAME: node.name}) for rule in self.match_fields
        )


class NodeSelector(KubernetesRecord, frozen=True):
    """The nodes on which devices can be used.

    :param node_selector_terms: exactly one.
    :raises ValueError: there is none, or several.
    """

    node_selector_terms: tuple[NodeSelectorTerm, ...]

    def __post_init__(self) -> None:
        if len(self.node_selector_terms) != 1:
            raise ValueError(f"nodeSelectorTerms: {len(self.node_selector_terms)} instead of 1")

    @property
    def term(self) -> NodeSelectorTerm:
        """The only term."""
        return self.node_selector_terms[0]

    def selects(self, node: Node) -> bool:
        """Whether the node is selected."""
        return self.term.selects(node)
