"""Label selectors: which labels a request wants devices or virtual functions to have."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from hivecore._arguments import as_choice, as_name, as_text, as_tuple
from hivecore.devices._pairs import Labels, LabelsLike, as_labels

__all__ = ["LabelExpression", "Selector", "SelectorLike", "as_selector", "is_selected", "rule_text"]

_Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
_OPERATORS: tuple[_Operator, ...] = get_args(_Operator)


@dataclass(frozen=True, slots=True, order=True)
class LabelExpression:
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

    key: str
    operator: _Operator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "key", as_name(self.key, "key"))
        set_field(self, "operator", as_choice(self.operator, "operator", _OPERATORS))
        values = {as_text(item, "values") for item in as_tuple(self.values, "values")}
        set_field(self, "values", tuple(sorted(values)))
        if self.operator in ("In", "NotIn") and not values:
            raise ValueError(f"values: operator {self.operator!r} needs one value at least")
        if self.operator in ("Exists", "DoesNotExist") and values:
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
