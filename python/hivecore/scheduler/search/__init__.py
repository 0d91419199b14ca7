"""The search for victims, and for what is reserved until they have left."""

__all__: list[str] = []
