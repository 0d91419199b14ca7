"""One small adapter per part: what a unit asks of it, and what has to change when it refuses."""

__all__: list[str] = []
