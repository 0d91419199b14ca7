"""Other people's formats and protocols: `hivecore.interop.networkx` is a backend of networkx."""
