"""What becomes of jobs: they wait, start, are told to stop, and end."""

__all__: list[str] = []
