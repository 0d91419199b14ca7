"""Caching: uniform caches, cache and remote IO as resources, reference policies, replicas."""

# --- storage ---

# --- uniform ---

# --- policies ---

# --- replicas ---

__all__: list[str] = []
