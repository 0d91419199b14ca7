"""A readable twin of every kernel in pure Python: executable specification and test oracle.

A twin has its kernel's name and signature, takes time that grows with the cluster, and trusts its
caller: the kernel checks arguments.
"""
