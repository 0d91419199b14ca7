"""Formats and protocols of other systems.

Schedulers: `hivecore.interop.hived`, `hivecore.interop.koordinator`, `hivecore.interop.gpushare`,
`hivecore.interop.kubedl`, `hivecore.interop.kueue`, `hivecore.interop.slurm`.
`hivecore.interop.ray` turns decisions into placement groups, `hivecore.interop.networkx` is a
networkx backend, `hivecore.interop.quota_file` reads quotas from files,
`hivecore.interop.scheduler_file` reads a whole cluster, and `hivecore.interop.gpu_topology` how the
GPUs of a machine are linked.
"""
