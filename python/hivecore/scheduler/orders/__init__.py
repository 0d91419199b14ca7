"""Jobs run in an order that the caller has set."""

__all__: list[str] = []
