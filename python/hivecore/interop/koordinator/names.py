"""Koordinator's names of device resources, annotations and labels.

Source: Koordinator, ``apis/extension/device_share.go``.
"""

__all__ = [
    "AMD_GPU",
    "AMOUNTS",
    "CORE",
    "DCU_GPU",
    "DEVICE_ALLOCATED",
    "DEVICE_HINT",
    "FPGA",
    "GPU",
    "GPU_MODEL",
    "GPU_PARTITIONS",
    "GPU_VENDOR",
    "ISOLATION_PROVIDER",
    "JOINT_ALLOCATE",
    "MEMORY",
    "NPU_CORE",
    "NPU_CPU",
    "NPU_DVPP",
    "NVIDIA_GPU",
    "PARTITION_POLICY",
    "PARTITION_SPEC",
    "RATIO",
    "RDMA",
    "SHARED",
    "WELL_PLANNED",
]

NVIDIA_GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"
DCU_GPU = "dcu.com/gpu"
GPU = "koordinator.sh/gpu"
SHARED = "koordinator.sh/gpu.shared"
CORE = "koordinator.sh/gpu-core"
MEMORY = "koordinator.sh/gpu-memory"
RATIO = "koordinator.sh/gpu-memory-ratio"
NPU_CORE = "huawei.com/npu-core"
NPU_CPU = "huawei.com/npu-cpu"
NPU_DVPP = "huawei.com/npu-dvpp"
RDMA = "koordinator.sh/rdma"
FPGA = "koordinator.sh/fpga"

#: type -> our name of an amount -> Koordinator's resource.
AMOUNTS = {
    "gpu": {
        "core": CORE,
        "memory": MEMORY,
        "memory_ratio": RATIO,
        "npu_core": NPU_CORE,
        "npu_cpu": NPU_CPU,
        "npu_dvpp": NPU_DVPP,
    },
    "rdma": {"share": RDMA},
    "fpga": {"share": FPGA},
}

_SCHEDULING = "scheduling.koordinator.sh"
_NODE = "node.koordinator.sh"

# Annotations of pods.
DEVICE_ALLOCATED = f"{_SCHEDULING}/device-allocated"
DEVICE_HINT = f"{_SCHEDULING}/device-allocate-hint"
JOINT_ALLOCATE = f"{_SCHEDULING}/device-joint-allocate"
PARTITION_SPEC = f"{_SCHEDULING}/gpu-partition-spec"
# An annotation of device records.
GPU_PARTITIONS = f"{_SCHEDULING}/gpu-partitions"

# Labels of device records and nodes; the last one of nodes and pods.
PARTITION_POLICY = f"{_NODE}/gpu-partition-policy"
WELL_PLANNED = f"{_NODE}/secondary-device-well-planned"
GPU_VENDOR = f"{_NODE}/gpu-vendor"
GPU_MODEL = f"{_NODE}/gpu-model"
ISOLATION_PROVIDER = "koordinator.sh/gpu-isolation-provider"
