"""Doors to the stores."""

__all__: list[str] = []
