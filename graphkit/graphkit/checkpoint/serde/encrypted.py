"""Door to `graphkit_checkpoint.encryption`."""

from graphkit_checkpoint.encryption import (
    EncryptedSerializer,
)

__all__ = ["EncryptedSerializer"]
