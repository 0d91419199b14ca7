"""Which running jobs to move, so that nodes get free or a job fits."""

__all__: list[str] = []
