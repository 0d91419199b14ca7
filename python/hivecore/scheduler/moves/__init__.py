"""Chooses running jobs to move, so that nodes become free or a job fits."""

__all__: list[str] = []
