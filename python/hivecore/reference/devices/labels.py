"""Label selectors as in Kubernetes (``metav1.LabelSelector``)."""

from collections.abc import Iterable
from typing import Any

__all__ = ["selects"]


def selects(selector: Iterable[Any], labels: Iterable[tuple[str, str]]) -> bool:
    """Whether these labels satisfy all rules of a selector: required pairs and expressions.

    A missing key satisfies "NotIn" and "DoesNotExist".

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
