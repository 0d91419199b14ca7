"""A round of decisions: waiting units are offered to the stages in turn."""

__all__: list[str] = []
