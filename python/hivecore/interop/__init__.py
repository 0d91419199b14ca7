"""Other people's formats and protocols.

`hivecore.interop.hived`, `hivecore.interop.koordinator` and `hivecore.interop.gpushare` speak those
of schedulers; `hivecore.interop.networkx` is a backend of networkx, `hivecore.interop.quota_file`
reads quotas from files.
"""
