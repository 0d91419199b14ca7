"""Kueue's API versions and annotations for topologies.

Source: Kueue, ``apis/kueue/v1beta2/topology_types.go``.
"""

__all__ = [
    "GROUP",
    "GROUP_NAME",
    "HOSTNAME",
    "POD_SET",
    "PREFERRED",
    "REQUIRED",
    "SLICES",
    "SLICE_REQUIRED",
    "SLICE_SIZE",
    "UNCONSTRAINED",
    "VERSIONS",
]

GROUP = "kueue.x-k8s.io"
VERSIONS = (f"{GROUP}/v1alpha1", f"{GROUP}/v1beta1", f"{GROUP}/v1beta2")

#: If it is the lowest level, domains are nodes.
HOSTNAME = "kubernetes.io/hostname"

# Annotations of a pod set's template.
POD_SET = f"{GROUP}/podset-"
REQUIRED = f"{POD_SET}required-topology"
PREFERRED = f"{POD_SET}preferred-topology"
UNCONSTRAINED = f"{POD_SET}unconstrained-topology"
SLICE_REQUIRED = f"{POD_SET}slice-required-topology"
SLICE_SIZE = f"{POD_SET}slice-size"
SLICES = f"{POD_SET}slice-required-topology-constraints"
GROUP_NAME = f"{POD_SET}group-name"
