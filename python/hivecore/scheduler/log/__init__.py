"""The decision log: everything that came in and went out, so that it can be run again."""

__all__: list[str] = []
