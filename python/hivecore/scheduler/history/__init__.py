"""Reads from a decision log what was at some time, and what another configuration would do."""

__all__: list[str] = []
