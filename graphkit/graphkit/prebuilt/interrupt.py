"""Door to `graphkit_prebuilt.react.review`."""

from graphkit_prebuilt.react.review import (
    ActionRequest,
    HumanInterrupt,
    HumanInterruptConfig,
    HumanResponse,
)

__all__ = ["ActionRequest", "HumanInterrupt", "HumanInterruptConfig", "HumanResponse"]
