"""The states of jobs, and the transitions between them."""

__all__: list[str] = []
