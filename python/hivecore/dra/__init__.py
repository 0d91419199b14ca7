"""Kubernetes' device claims (``resource.k8s.io/v1``): slices, claims and pools of devices."""

from hivecore.dra.attribute import Attribute, SemanticVersion
from hivecore.dra.cel import Evaluator, Selector, compile_selector, matches
from hivecore.dra.claim import (
    CapacityRequirements,
    CelSelector,
    DeviceClass,
    DeviceConfiguration,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    OpaqueConfiguration,
    ResourceClaim,
)
from hivecore.dra.cluster import DraCluster
from hivecore.dra.decision import ClaimDecision, ClaimFits, ClaimProblem, Given
from hivecore.dra.device import (
    Capacity,
    CapacityPolicy,
    CapacityRange,
    Counter,
    CounterConsumption,
    Device,
    DeviceId,
    Taint,
    Toleration,
)
from hivecore.dra.explanation import ClaimExplanation
from hivecore.dra.features import KubernetesFeatures
from hivecore.dra.gang import DraGangDecision
from hivecore.dra.node import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from hivecore.dra.pools import Pool, PoolDevice, gather_pools, published
from hivecore.dra.resource_slice import (
    CounterSet,
    DeviceTaintRule,
    ResourcePool,
    ResourceSlice,
    TaintedDevices,
)

__all__ = [
    "Attribute",
    "Capacity",
    "CapacityPolicy",
    "CapacityRange",
    "CapacityRequirements",
    "CelSelector",
    "ClaimDecision",
    "ClaimExplanation",
    "ClaimFits",
    "ClaimProblem",
    "Counter",
    "CounterConsumption",
    "CounterSet",
    "Device",
    "DeviceClass",
    "DeviceConfiguration",
    "DeviceConstraint",
    "DeviceId",
    "DeviceRequest",
    "DeviceSelector",
    "DeviceSubRequest",
    "DeviceTaintRule",
    "DraCluster",
    "DraGangDecision",
    "Evaluator",
    "ExactDeviceRequest",
    "Given",
    "KubernetesFeatures",
    "Node",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "OpaqueConfiguration",
    "Pool",
    "PoolDevice",
    "ResourceClaim",
    "ResourcePool",
    "ResourceSlice",
    "Selector",
    "SemanticVersion",
    "Taint",
    "TaintedDevices",
    "Toleration",
    "compile_selector",
    "gather_pools",
    "matches",
    "published",
]
