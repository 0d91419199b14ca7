"""The readable twin of every kernel in pure Python: the executable specification and test oracle.

A twin has the name and the signature of its kernel, takes time that grows with the size of the
cluster, and trusts its caller: the checking of arguments is the kernel's work.
"""
