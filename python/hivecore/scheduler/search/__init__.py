"""Which jobs have to leave for others, and what is held for these until they have left."""

__all__: list[str] = []
