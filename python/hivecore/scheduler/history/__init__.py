"""What a decision log tells: how things stood at some time, and how they would have gone else."""

__all__: list[str] = []
