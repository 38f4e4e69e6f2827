"""Doors to the savers and to serialization."""

__all__: list[str] = []
