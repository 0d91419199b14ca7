"""Label selectors, as Kubernetes defines them (``metav1.LabelSelector``)."""

from collections.abc import Iterable
from typing import Any

__all__ = ["selects"]


def selects(selector: Iterable[Any], labels: Iterable[tuple[str, str]]) -> bool:
    """Whether these labels keep all rules of the selector: pairs that must be there, expressions.

    What lacks the key of "NotIn" or "DoesNotExist" keeps that rule.

    >>> selects([("ring", "a")], [("kind", "fast"), ("ring", "a")])
    True
    """
    return all(_holds(rule, dict(labels)) for rule in selector)


def _holds(rule: Any, labels: dict[str, str]) -> bool:
    if isinstance(rule, tuple):
        key, value = rule
        return bool(labels.get(key) == value)
    if rule.operator == "In":
        return rule.key in labels and labels[rule.key] in rule.values
    if rule.operator == "NotIn":
        return rule.key not in labels or labels[rule.key] not in rule.values
    return bool((rule.key in labels) == (rule.operator == "Exists"))
