"""Feature gates of Kubernetes versions, and their defaults."""

from collections.abc import Iterable, Mapping
from typing import Self

from hivecore._arguments import as_bool, as_choice, as_dict
from hivecore._record import Record

__all__ = ["VERSIONS", "KubernetesFeatures"]

#: The versions whose features are known.
VERSIONS = ("1.34", "1.35", "1.36", "1.37")

# Gate -> state in each version: "-" absent, "0" off, "1" on, "L" locked on.
_GATES = {
    "DynamicResourceAllocation": "1L11",
    "DRAAdminAccess": "1111",
    "DRAPrioritizedList": "111L",
    "DRAPartitionableDevices": "0011",
    "DRADeviceTaints": "0011",
    "DRADeviceTaintRules": "-001",
    "DRAConsumableCapacity": "0011",
    "DRADeviceBindingConditions": "0011",
    "DRAResourceClaimDeviceStatus": "1111",
    "DRAExtendedResource": "0011",
    "DRAListTypeAttributes": "--00",
    "DRASchedulerFilterTimeout": "1111",
    "DRANodeAllocatableResources": "--00",
    "DRADerivedAttributes": "---0",
    "DRADeviceCompatibilityGroups": "---0",
    "DRAOptionalNodeOperations": "---0",
    "DRAFractionalCapacityRange": "---1",
}


class KubernetesFeatures(Record, frozen=True):
    """The features that a cluster has enabled.

    :param version: of Kubernetes, one of `VERSIONS`.
    :param enabled: the gates that are on.

    >>> from hivecore.dra import KubernetesFeatures
    >>> features = KubernetesFeatures.of("1.36", {"DRAListTypeAttributes": True})
    >>> features.has("DRAListTypeAttributes"), features.has("DRADeviceTaintRules")
    (True, False)
    """

    version: str
    enabled: frozenset[str]

    @classmethod
    def of(cls, version: str = "1.36", gates: Mapping[str, bool] | Iterable[str] = ()) -> Self:
        """Return the defaults of a version, with some gates changed.

        :param version: one of `VERSIONS`.
        :param gates: gate -> whether it is on; or the names of all gates that are on, apart from
            locked ones.
        :raises ValueError: the version or a gate is unknown, or a gate is locked.
        :raises TypeError: an argument has a wrong type.

        Source: the tables of feature gates of Kubernetes 1.34 to 1.37 (development).
        """
        column = VERSIONS.index(as_choice(version, "version", VERSIONS))
        states = {gate: row[column] for gate, row in _GATES.items() if row[column] != "-"}
        changes = _as_changes(gates, states)
        on = {gate for gate, state in states.items() if state in "1L"}
        for gate, is_on in changes.items():
            as_choice(gate, f"gates of Kubernetes {version}", tuple(states))
            if states[gate] == "L" and not as_bool(is_on, gate):
                raise ValueError(f"gates: {gate} is locked in Kubernetes {version}")
            on = on | {gate} if as_bool(is_on, gate) else on - {gate}
        return cls(version, frozenset(on))

    def has(self, gate: str) -> bool:
        """Whether a gate is on; unknown gates are off."""
        return gate in self.enabled

    @property
    def clears_covering_requests(self) -> bool:
        """Whether a configuration for all requests is written without their names."""
        return self._is_since("1.37")

    @property
    def reads_lists(self) -> bool:
        """Whether selectors read devices that have attributes with lists."""
        return self._is_since("1.37") or self.has("DRAListTypeAttributes")

    def _is_since(self, version: str) -> bool:
        return VERSIONS.index(self.version) >= VERSIONS.index(version)


def _as_changes(
    gates: Mapping[str, bool] | Iterable[str], states: Mapping[str, str]
) -> dict[str, bool]:
    if isinstance(gates, Mapping) or not gates:
        return dict(as_dict(gates, "gates"))
    if isinstance(gates, str):
        raise TypeError("gates must be a mapping or names, not str")
    on = dict.fromkeys(gates, True)
    return {gate: False for gate, state in states.items() if state != "L"} | on
