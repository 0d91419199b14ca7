"""NVIDIA's MIG instances as devices of claims: which profiles fit together on a card.

An instance takes memory slices of its card, from one of its profile's start positions on. Each
possible instance is a device that consumes a counter for each of its slices, so that the search for
partitions also finds what fits, and on the fewest cards.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

from hivecore._arguments import as_choice, as_dict, as_int, as_name, as_tuple, tuple_of
from hivecore.dra.cluster import DraCluster
from hivecore.dra.device import DeviceId

__all__ = [
    "MIG_MODELS",
    "MigInstance",
    "MigPlan",
    "mig_claim",
    "mig_instances",
    "mig_moves",
    "mig_objects",
]

_Placements: TypeAlias = Mapping[str, tuple[tuple[int, ...], int]]
_DRIVER, _CLASS = "gpu.nvidia.com", "mig.nvidia.com"
_OWN = f'device.attributes["{_DRIVER}"]'
_MEDIA = "+me"  # at most one per card


def _sevenths(g1: int, g2: int, g4: int, all: int) -> _Placements:
    """Return the profiles of a card with 7 compute and 8 memory slices, by gigabytes."""
    return {
        f"1g.{g1}gb": (tuple(range(7)), 1),
        f"1g.{g1}gb{_MEDIA}": (tuple(range(7)), 1),
        f"1g.{g2}gb": ((0, 2, 4, 6), 2),
        f"2g.{g2}gb": ((0, 2, 4), 2),
        f"3g.{g4}gb": ((0, 4), 4),
        f"4g.{g4}gb": ((0,), 4),
        f"7g.{all}gb": ((0,), 8),
    }


_ONES: _Placements = dict.fromkeys(("1g.6gb", f"1g.6gb{_MEDIA}"), ((0, 1, 2, 3), 1))
_TWOS: _Placements = dict.fromkeys(("2g.12gb", f"2g.12gb{_MEDIA}"), ((0, 2), 2))
#: model -> profile -> (possible first memory slices, number of slices), as ``nvidia-smi mig
#: -lgipp`` lists them (NVIDIA's MIG User Guide).
MIG_MODELS: Mapping[str, _Placements] = {
    "A30-24GB": {**_ONES, **_TWOS, "4g.24gb": ((0,), 4)},
    "A100-40GB": _sevenths(5, 10, 20, 40),
    "A100-80GB": _sevenths(10, 20, 40, 80),
    "H100-80GB": _sevenths(10, 20, 40, 80),
    "H100-94GB": _sevenths(12, 24, 47, 94),
    "H100-96GB": _sevenths(12, 24, 48, 96),
    "H200-141GB": _sevenths(18, 35, 71, 141),
}
_PROFILES = tuple(sorted({profile for known in MIG_MODELS.values() for profile in known}))


class MigInstance(NamedTuple):
    """An instance on a card, by its first memory slice, with its claim if known."""

    profile: str
    start: int
    owner: str = ""


class MigPlan(NamedTuple):
    """How a card makes room: the moving instances are deleted first, then created again.

    :param card: its name.
    :param start: the position of the new instance.
    :param moves: the moving instances, each with its new start.
    """

    card: str
    start: int
    moves: tuple[tuple[MigInstance, int], ...]


def mig_objects(
    node: str,
    model: str,
    cards: int,
    instances: Mapping[int, Iterable[str]] | None = None,
) -> list[dict[str, Any]]:
    """Return the device class and resource slices of a node's cards, for `DraCluster.update`.

    :param model: a key of `MIG_MODELS`.
    :param cards: their number, 1 to 64.
    :param instances: card -> profiles of its fixed instances; by default instances are created on
        demand.
    :raises ValueError: unknown model or profile, or no card holds these instances.

    Small instances begin at the end of a card, which keeps its first half for larger ones.
    """
    placements, slices = _card_of(model)
    cards = as_int(cards, "cards", 1, 64)
    fixed = None if instances is None else as_dict(instances, "instances")
    for card in fixed or ():
        as_int(card, "instances", 0, cards - 1)
    possible = [
        (profile, start)
        for profile, (starts, _) in placements.items()
        for start in reversed(starts)
    ]
    counters = {**{f"memory-slice-{i}": 1 for i in range(slices)}, "media": 1}
    sets = [{"name": f"gpu-{i}", "counters": _values(counters)} for i in range(cards)]
    contents: list[dict[str, Any]] = []
    for i in range(cards):
        if fixed is not None:
            profiles = as_tuple(fixed.get(i, ()), f"instances[{i}]")
            starts = _starts(model, [(profile, None) for profile in profiles])
            if starts is None:
                raise ValueError(f"instances[{i}]={profiles}: no {model} holds them together")
            possible = list(zip(profiles, starts, strict=True))
        contents.append({"devices": [_device(i, placements, *instance) for instance in possible]})
    contents += [{"sharedCounters": sets[i : i + 8]} for i in range(0, cards, 8)]
    pool = {"name": as_name(node, "node"), "generation": 1, "resourceSliceCount": len(contents)}
    spec = {"driver": _DRIVER, "nodeName": node, "pool": pool}
    rule = f'device.driver == "{_DRIVER}" && {_OWN}.type == "mig"'
    mig = {"metadata": {"name": _CLASS}, "spec": {"selectors": _selectors(rule)}}
    return [{"kind": "DeviceClass", **mig}] + [
        {"kind": "ResourceSlice", "metadata": {"name": f"{node}-mig-{i}"}, "spec": spec | content}
        for i, content in enumerate(contents)
    ]


def mig_claim(name: str, profiles: Mapping[str, int], namespace: str = "") -> dict[str, Any]:
    """Return a claim for instances (profile -> number), which also fits NVIDIA's driver.

    >>> from hivecore.dra import DraCluster
    >>> from hivecore.dra.mig import mig_claim, mig_objects
    >>> cluster = DraCluster()
    >>> cluster.update(*mig_objects("n1", "A100-40GB", 2))
    >>> claim = mig_claim("serve", {"3g.20gb": 2, "1g.5gb": 1})
    >>> decision = cluster.schedule([claim], mode="fewest blocks")
    >>> [given.device.device for given in decision.devices]
    ['gpu-0-mig-3g-20gb-4', 'gpu-0-mig-3g-20gb-0', 'gpu-1-mig-1g-5gb-6']
    """
    counts = as_dict(profiles, "profiles")
    requests = [
        _request(f"p{i}", profile, as_int(count, f"profiles[{profile!r}]", 1, 32))
        for i, (profile, count) in enumerate(counts.items())
    ]
    metadata = {"name": as_name(name, "name"), "namespace": namespace}
    return {"metadata": metadata, "spec": {"devices": {"requests": requests}}}


def mig_instances(cluster: DraCluster, node: str) -> dict[str, list[MigInstance]]:
    """Return the instances in use on a node's cards that `mig_objects` published."""
    facts = cluster.facts()
    owners = {entry[0]: owner for owner, held in facts.held.items() for entry in held}
    instances: dict[str, list[MigInstance]] = {}
    for of in facts.slices:
        for device in of.devices if (of.driver, of.pool.name) == (_DRIVER, node) else ():
            names = ("card", "profile", "start")
            if not device.attributes.keys() >= set(names):  # another driver's
                continue
            card, profile, start = (device.attributes[name].value for name in names)
            here = instances.setdefault(str(card), [])
            if owner := owners.get(DeviceId(_DRIVER, node, device.name)):
                here.append(MigInstance(str(profile), int(str(start)), owner))
    return instances


def mig_moves(
    model: str, cards: Mapping[str, Sequence[MigInstance]], wanted: str
) -> MigPlan | None:
    """Return the fewest moves within a card that make room for an instance; ``None``: none can.

    :param model: a key of `MIG_MODELS`.
    :param cards: the instances on each card, see `mig_instances`. Of cards that need equally few
        moves the first is used.
    :param wanted: the profile of the new instance.
    :raises ValueError: unknown model or profile.

    >>> from hivecore.dra.mig import MigInstance, mig_moves
    >>> card = [MigInstance("2g.10gb", 2), MigInstance("1g.5gb", 6)]
    >>> plan = mig_moves("A100-40GB", {"gpu-0": card}, "4g.20gb")
    >>> plan.start, [(instance.profile, instance.start, start) for instance, start in plan.moves]
    (0, [('2g.10gb', 2, 4)])

    Exact: all sets of instances are tried, smaller ones first.
    """
    placements, _ = _card_of(model)
    as_choice(wanted, "wanted", tuple(placements))
    given = {
        card: tuple_of(of, "cards", MigInstance) for card, of in as_dict(cards, "cards").items()
    }
    for instance in [instance for here in given.values() for instance in here]:
        allowed, _ = placements[as_choice(instance.profile, "cards", tuple(placements))]
        if instance.start not in allowed:
            raise ValueError(
                f"cards: {instance.profile} begins at one of {allowed}, not at {instance.start}"
            )
    for count in range(max(map(len, given.values()), default=-1) + 1):
        for card, here in given.items():
            for moved in combinations(range(len(here)), count):
                current = [(instance.profile, instance.start) for instance in here]
                free = [(p, None if i in moved else s) for i, (p, s) in enumerate(current)]
                starts = _starts(model, [*free, (wanted, None)])
                if starts is not None:
                    moves = tuple((here[i], starts[i]) for i in moved)
                    return MigPlan(card, starts[-1], moves)
    return None


def _card_of(model: str) -> tuple[_Placements, int]:
    """Return a card's placements and number of memory slices."""
    placements = MIG_MODELS[as_choice(model, "model", tuple(MIG_MODELS))]
    return placements, max(max(starts) + size for starts, size in placements.values())


def _device(card: int, placements: _Placements, profile: str, start: int) -> dict[str, Any]:
    texts = {"type": "mig", "card": f"gpu-{card}", "profile": profile}
    attributes: dict[str, Any] = {name: {"string": text} for name, text in texts.items()}
    _, size = placements[profile]
    counters = {f"memory-slice-{i}": 1 for i in range(start, start + size)}
    counters |= {"media": 1} if profile.endswith(_MEDIA) else {}
    return {
        "name": f"gpu-{card}-mig-{profile.replace('.', '-').replace('+', '-')}-{start}",
        "attributes": attributes | {"start": {"int": start}},
        "consumesCounters": [{"counterSet": f"gpu-{card}", "counters": _values(counters)}],
    }


def _values(counters: Mapping[str, int]) -> dict[str, Any]:
    return {name: {"value": str(value)} for name, value in counters.items()}


def _selectors(rule: str) -> list[Any]:
    return [{"cel": {"expression": rule}}]


def _request(name: str, profile: str, count: int, start: int | None = None) -> dict[str, Any]:
    rule = f'{_OWN}.profile == "{as_choice(profile, "profile", _PROFILES)}"'
    rule += "" if start is None else f" && {_OWN}.start == {start}"
    exactly = {"deviceClassName": _CLASS, "count": count, "selectors": _selectors(rule)}
    return {"name": name, "exactly": exactly}


@lru_cache
def _idle_card(model: str) -> DraCluster:
    cluster = DraCluster()
    cluster.update(*mig_objects("card", model, 1))
    return cluster


def _starts(model: str, instances: Sequence[tuple[str, int | None]]) -> list[int] | None:
    """Return positions of these instances on a card, some of them given; ``None`` if they do not
    fit.
    """
    if len(instances) > _card_of(model)[1]:
        return None
    requests = [_request(f"i{i}", profile, 1, at) for i, (profile, at) in enumerate(instances)]
    claim = {"metadata": {"name": "all"}, "spec": {"devices": {"requests": requests}}}
    decision = _idle_card(model).allocate([claim], "card")
    devices = [given.device.device for given in decision.devices]
    fits = decision.outcome == "allocated"
    return [int(name.rpartition("-")[2]) for name in devices] if fits else None
