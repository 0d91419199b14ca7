"""Label selectors: which labels a request wants devices or virtual functions to have."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from hivecore._arguments import as_text, as_tuple
from hivecore._record import Name, Record
from hivecore.devices._pairs import Labels, LabelsLike, as_labels

__all__ = ["LabelExpression", "Selector", "SelectorLike", "as_selector", "is_selected", "rule_text"]

_Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


def _values(value: Any, name: str) -> tuple[str, ...]:
    return tuple(sorted({as_text(text, name) for text in as_tuple(value, name)}))


class LabelExpression(Record, frozen=True, order=True):
    """A rule for one label, as Kubernetes' label selectors have it.

    :param key: of the label.
    :param operator: "In": the label has one of the values. "NotIn": it has none of them, or the
        label is not there. "Exists": the label is there. "DoesNotExist": it is not.
    :param values: of "In" and "NotIn", one at least; the others take none.
    :raises ValueError: there is no such operator, it takes values and has none, or the reverse.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.devices import DeviceNeed, LabelExpression
    >>> fabric = LabelExpression("net", "In", ["fabric", "storage"])
    >>> str(fabric)
    'net in (fabric, storage)'
    >>> need = DeviceNeed("rdma", 1, {"share": 1}, selector=[("ring", "a"), fabric])
    """

    key: Name
    operator: _Operator
    values: Annotated[tuple[str, ...], _values] = ()

    if TYPE_CHECKING:

        def __init__(self, key: str, operator: _Operator, values: Iterable[str] = ()) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        if self.operator in ("In", "NotIn") and not self.values:
            raise ValueError(f"values: operator {self.operator!r} needs one value at least")
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise ValueError(f"values={list(self.values)}: operator {self.operator!r} takes none")

    def __str__(self) -> str:
        if self.operator in ("Exists", "DoesNotExist"):
            return self.key if self.operator == "Exists" else f"!{self.key}"
        word = "in" if self.operator == "In" else "notin"
        return f"{self.key} {word} ({', '.join(self.values)})"

    def holds(self, labels: Labels) -> bool:
        """Whether these labels keep the rule."""
        value = dict(labels).get(self.key)
        if self.operator in ("Exists", "DoesNotExist"):
            return (value is not None) == (self.operator == "Exists")
        return (value in self.values) == (self.operator == "In")


#: Rules that must all hold; a pair of a key and a value is a label that must be there.
Selector: TypeAlias = tuple[tuple[str, str] | LabelExpression, ...]
SelectorLike: TypeAlias = LabelsLike | Iterable[tuple[str, str] | LabelExpression]


def as_selector(value: object, name: str) -> Selector:
    """The rules: labels by their keys, then expressions in their order."""
    if type(value) is tuple and not value:
        return value
    if isinstance(value, Mapping):
        return as_labels(value, name)
    if isinstance(value, str) or not isinstance(value, Iterable):
        kind = type(value).__name__
        raise TypeError(f"{name} must be a mapping, or pairs and LabelExpression, not {kind}")
    given = as_tuple(value, name)
    expressions = {item for item in given if isinstance(item, LabelExpression)}
    pairs = tuple(item for item in given if not isinstance(item, LabelExpression))
    return *as_labels(pairs, name), *sorted(expressions)


def is_selected(selector: Selector, labels: Labels) -> bool:
    """Whether these labels keep all rules."""
    return all(
        rule.holds(labels) if isinstance(rule, LabelExpression) else rule in labels
        for rule in selector
    )


def rule_text(rule: tuple[str, str] | LabelExpression) -> str:
    """The rule as Kubernetes writes it."""
    return str(rule) if isinstance(rule, LabelExpression) else "=".join(rule)
