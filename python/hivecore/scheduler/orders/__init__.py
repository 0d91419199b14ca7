"""Runs jobs in an order that the caller sets."""

__all__: list[str] = []
