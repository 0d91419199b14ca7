"""Twins of `hivecore.caching`, in plain Python."""

# --- storage ---

# --- uniform ---

# --- policies ---

# --- replicas ---

__all__: list[str] = []
