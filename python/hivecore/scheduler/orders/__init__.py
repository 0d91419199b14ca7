"""Jobs that run in an order that somebody else tells."""

__all__: list[str] = []
