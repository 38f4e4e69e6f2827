"""Door to callback handlers."""

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
