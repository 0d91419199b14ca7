"""An adapter of each part, and the transaction over all of them."""

__all__: list[str] = []
