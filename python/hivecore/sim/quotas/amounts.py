"""Formats amounts: cores, bytes in powers of 1024, and numbers with separators.

Resources have Kubernetes' names: ``cpu`` is in thousandths of a core, memory in bytes.
"""

from collections.abc import Iterable
from decimal import Decimal

from hivecore._thousandths import Amount

__all__ = ["UNLIMITED", "axis_unit", "shown"]

#: From here on, an amount means "no limit".
UNLIMITED = 2**60

_BYTES = ("memory", "storage", "hugepages")
_POWERS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


def shown(resource: str, amount: Amount) -> str:
    """Return an amount for a table, with at most one decimal.

    :param resource: its name.
    :param amount: in the resource's units.

    >>> shown("cpu", 1500), shown("memory", 3 << 29), shown("gpu", 1200), shown("gpu", 2**62)
    ('1.5', '1.5Gi', '1,200', 'no limit')
    """
    if amount >= UNLIMITED:
        return "no limit"
    if resource == "cpu":
        return _rounded(amount / 1000, amount)
    if not _is_bytes(resource):
        return f"{amount:,}"
    power = _power(int(amount))
    return f"{_rounded(amount / 1024**power, amount)}{_POWERS[power]}"


def axis_unit(resource: str, largest: float) -> tuple[str, int]:
    """Return the label of a resource's axis, and its unit in the resource's units.

    :param resource: its name.
    :param largest: the largest amount on the axis.

    >>> axis_unit("cpu", 64_000), axis_unit("memory", 64 << 30)
    (('cpu (cores)', 1000), ('memory (GiB)', 1073741824))
    """
    if resource == "cpu":
        return f"{resource} (cores)", 1000
    if not _is_bytes(resource):
        return resource, 1
    power = _power(int(largest))
    return f"{resource} ({_POWERS[power]}B)", 1024**power


def _is_bytes(resource: str) -> bool:
    """Whether it is memory of any kind, such as ``kubernetes.io/batch-memory``."""
    last: Iterable[str] = resource.rpartition("/")[2].split("-")
    return any(word in _BYTES for word in last)


def _power(amount: int) -> int:
    return min(max(amount.bit_length() - 1, 0) // 10, len(_POWERS) - 1)


def _rounded(value: float | Decimal, amount: Amount) -> str:
    text = f"{value:,.1f}".removesuffix(".0")
    return "<0.1" if text == "0" and amount else text
