"""Past states, explanations and comparisons, read from a decision log."""

__all__: list[str] = []
