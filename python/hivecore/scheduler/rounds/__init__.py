"""One round of decisions: whose turn it is, and what becomes of them."""

__all__: list[str] = []
