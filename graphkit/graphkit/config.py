"""Getting at the run from anywhere inside a node."""

from __future__ import annotations

from typing import Any

from graphkit.frame import running
from graphkit.runtime import config_of
from graphkit.types import RunnableConfig, StreamWriter

__all__ = ["RunnableConfig", "get_config", "get_store", "get_stream_writer"]


def get_config() -> RunnableConfig:
    """The config of the run. Outside a run: `RuntimeError`."""
    return config_of(running("get_config()"))


def get_store() -> Any:
    """The graph's store. Outside a run: `RuntimeError`."""
    return running("get_store()").attempt.scope.live.store


def get_stream_writer() -> StreamWriter:
    """A function that emits a value in stream mode "custom". Outside a run: `RuntimeError`."""
    return running("get_stream_writer()").emit
