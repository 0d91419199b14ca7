"""A stage for each part of a scheduler, and the transaction over all of them."""

__all__: list[str] = []
