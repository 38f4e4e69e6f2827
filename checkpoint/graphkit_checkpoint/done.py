"""One method for both colours: what a blocking call has done already may also be awaited."""

from __future__ import annotations

from collections.abc import Generator


class Done:
    """What `setup` returns: async callers may await what has been done already."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield
