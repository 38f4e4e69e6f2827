"""Conversation managers: what keeps a conversation small enough for its model."""
