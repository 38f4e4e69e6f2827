"""Doors to the caches."""

__all__: list[str] = []
