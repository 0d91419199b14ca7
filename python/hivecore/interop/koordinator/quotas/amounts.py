"""Converts Kubernetes' lists of resources to the amounts of quotas and back.

CPUs are counted in thousandths of a core, everything else in whole units, rounded up.
"""

import json
from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from hivecore._quantities import write_binary, write_decimal
from hivecore._thousandths import Amount, counted
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show

__all__ = [
    "MOST",
    "in_units",
    "json_resources",
    "read_resources",
    "read_weights",
    "write_amount",
    "written_weight",
]

#: The largest amount. Koordinator writes "no limit" as a larger one, which is read as this.
MOST = 2**62

_CPU = "cpu"
_BYTES = ("memory", "storage", "ephemeral-storage")


def read_resources(field: Field) -> dict[str, int]:
    """Return the amounts by resource, at most `MOST` each.

    :raises ValueError: a value is negative or not a quantity.
    :raises TypeError: a field has a wrong type.

    >>> read_resources(Field({"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 8}))
    {'cpu': 1500, 'memory': 1073741824, 'nvidia.com/gpu': 8}
    """
    return {
        name: min(in_units(name, entry.exactly()), MOST)
        for name, entry in field.items()
        if name and entry.value is not None
    }


def read_weights(field: Field) -> dict[str, int]:
    """Return the weights by resource, none of which is rounded.

    :raises ValueError: a value is negative, not a quantity or not in whole units.
    :raises TypeError: a field has a wrong type.
    """
    return {
        name: written_weight(name, entry)
        for name, entry in field.items()
        if name and entry.value is not None
    }


def written_weight(resource: str, entry: Field) -> int:
    """Return the weight that is written here; rounded up, 1.5 to 1 would be 2 to 1.

    :raises ValueError: the value is negative, not a quantity or not in whole units.
    :raises TypeError: it has a wrong type.

    >>> written_weight("gpu", Field("1500m", "weight.gpu"))
    Traceback (most recent call last):
    ValueError: weight.gpu: '1500m' is no whole number: only ratios count, as of 3 to 2
    """
    amount = entry.exactly()
    weight = in_units(resource, amount)
    if Fraction(weight, 1000 if resource == _CPU else 1) != amount:
        raise entry.error(
            f"{show(entry.value)} is no whole number: only ratios count, as of 3 to 2"
        )
    return min(weight, MOST)


def in_units(resource: str, amount: Fraction) -> int:
    """Return the amount in whole units of the resource, rounded up."""
    return ceil(amount * 1000 if resource == _CPU else amount)


def write_amount(resource: str, amount: Amount) -> str:
    """Return the amount as a Kubernetes quantity.

    >>> write_amount("cpu", 2000), write_amount("cpu", 1500), write_amount("memory", 1 << 30)
    ('2', '1500m', '1Gi')
    >>> from decimal import Decimal
    >>> write_amount("nvidia.com/gpu", Decimal("0.25"))
    '250m'
    """
    if not isinstance(amount, int):
        return f"{amount}m" if resource == _CPU else f"{counted(amount, True)}m"
    if resource == _CPU:
        return f"{amount}m" if amount % 1000 else write_decimal(amount // 1000)
    if resource in _BYTES or resource.startswith("hugepages-"):
        return write_binary(amount)
    return write_decimal(amount)


def json_resources(amounts: Mapping[str, Amount]) -> str:
    """Return the amounts as the JSON text of an annotation.

    >>> json_resources({"nvidia.com/gpu": 8, "cpu": 1500})
    '{"cpu":"1500m","nvidia.com/gpu":"8"}'
    """
    written = {name: write_amount(name, amounts[name]) for name in sorted(amounts)}
    return json.dumps(written, separators=(",", ":"))
