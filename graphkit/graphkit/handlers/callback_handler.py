"""Door to `graphkit_prebuilt.printing`."""

from graphkit_prebuilt.printing import (
    CompositeCallbackHandler,
    PrintingCallbackHandler,
    null_callback_handler,
)

__all__ = [
    "CompositeCallbackHandler",
    "PrintingCallbackHandler",
    "null_callback_handler",
]
