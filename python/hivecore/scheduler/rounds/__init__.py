"""A round of decisions: the scheduler offers waiting units to the stages in turn."""

__all__: list[str] = []
