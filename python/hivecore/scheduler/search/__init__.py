"""Who has to leave for others, and what is held for those until they have left."""

__all__: list[str] = []
