"""The state of a tree as text; equal states give equal texts, whatever their history."""

import json
from typing import Any, NamedTuple

from hivecore._arguments import as_name
from hivecore._quotas import QuotaKernel
from hivecore._record import fields_of
from hivecore.quotas._amounts import Amounts
from hivecore.quotas._fields import Field
from hivecore.quotas._names import Names
from hivecore.quotas.quota import Quota
from hivecore.quotas.quota_request import QuotaRequest

__all__ = ["Saved", "decode", "encode"]


class Saved(NamedTuple):
    """The parts of a saved tree."""

    settings: tuple[Any, ...]
    """The arguments of ``QuotaTree``."""
    totals: list[tuple[str, Amounts, bool]]
    quotas: list[Quota]
    scaled_mins: list[tuple[str, Amounts]]
    """By quota, with ``parity`` only: else they follow from the rest."""
    owners: list[tuple[QuotaRequest, int, bool]]
    """(request, running members, may borrow), in the order of admission."""
    fine: list[str]
    """The dimensions that are counted in thousandths."""


def encode(
    settings: tuple[Any, ...],
    core: QuotaKernel,
    names: Names,
    requests: list[QuotaRequest | None],
) -> bytes:
    """The payload of ``QuotaTree.to_bytes``, with the requests of the owners by number."""
    owners = []
    for number, request in enumerate(requests):
        if request is not None:
            *_, members, _, _, start, may_borrow = core.owner(number)
            owners.append((start, request.name, _fields(request), members, may_borrow))
    minimums = {
        name: names.named(name, core.amounts(names.number(name), Field.SCALED_MIN))
        for name in names.in_order()
        if settings[-1]
    }
    state: dict[str, Any] = {
        "settings": settings,
        "totals": [(tree, *names.totals[tree]) for tree in sorted(names.totals)],
        "quotas": [_fields(names.quotas[name]) for name in names.in_order()],
        "scaled_mins": [(name, sorted(minimum.items())) for name, minimum in minimums.items()],
        "owners": [owner[2:] for owner in sorted(owners, key=lambda owner: owner[:2])],
    }
    if names.fine:
        state["thousandths"] = sorted(names.fine)
    return json.dumps(state, separators=(",", ":"), default=float).encode()


def decode(payload: bytes) -> Saved:
    """The parts that ``encode`` wrote; anything else raises an error."""
    state = json.loads(payload)
    limit, *flags = state["settings"]
    is_known = limit in ("runtime", "max") and len(flags) == 4
    if not is_known or any(type(flag) is not bool for flag in flags):
        raise ValueError("settings are wrong")
    return Saved(
        (limit, *flags),
        [(tree, _pairs(total), carved) for tree, total, carved in state["totals"]],
        [Quota(**_arguments(fields)) for fields in state["quotas"]],
        [(name, _pairs(scaled)) for name, scaled in state["scaled_mins"]],
        [
            (QuotaRequest(**_arguments(fields)), members, _flag(may_borrow))
            for fields, members, may_borrow in state["owners"]
        ],
        [as_name(name, "thousandths") for name in state.get("thousandths", ())],
    )


def _fields(record: Quota | QuotaRequest) -> dict[str, Any]:
    return {name: getattr(record, name) for name in fields_of(type(record))}


def _arguments(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _pairs(value) if isinstance(value, list) else value for name, value in fields.items()
    }


def _pairs(values: list[list[Any]]) -> Amounts:
    return tuple((name, amount) for name, amount in values)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("a flag is none")
    return value
