"""Other people's formats and protocols.

`hivecore.interop.hived`, `hivecore.interop.koordinator`, `hivecore.interop.gpushare`,
`hivecore.interop.kubedl`, `hivecore.interop.kueue` and `hivecore.interop.slurm` speak those of
schedulers; `hivecore.interop.ray` hands decisions to Ray, `hivecore.interop.networkx` is a backend
of networkx, `hivecore.interop.quota_file` reads quotas from files,
`hivecore.interop.scheduler_file` what a whole cluster is, and `hivecore.interop.gpu_topology` how
the GPUs of a machine are linked.
"""
