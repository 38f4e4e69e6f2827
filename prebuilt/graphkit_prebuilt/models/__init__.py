"""Models: what an agent asks for the next message."""
