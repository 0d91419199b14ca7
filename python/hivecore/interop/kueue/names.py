"""What Kueue calls things of networks: API versions, annotations.

Source: Kueue, ``apis/kueue/v1beta2/topology_types.go``.
"""

__all__ = [
    "GROUP",
    "HOSTNAME",
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

#: As the lowest level it says that domains are nodes.
HOSTNAME = "kubernetes.io/hostname"

# Annotations of a pod set's template.
REQUIRED = f"{GROUP}/podset-required-topology"
PREFERRED = f"{GROUP}/podset-preferred-topology"
UNCONSTRAINED = f"{GROUP}/podset-unconstrained-topology"
SLICE_REQUIRED = f"{GROUP}/podset-slice-required-topology"
SLICE_SIZE = f"{GROUP}/podset-slice-size"
SLICES = f"{GROUP}/podset-slice-required-topology-constraints"
