"""The decision log: every event and every decision, so that a scheduler can be rebuilt from it."""

__all__: list[str] = []
