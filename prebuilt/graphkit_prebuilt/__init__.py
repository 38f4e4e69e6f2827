"""Floor 3: what is built from graphs (agents, tools, orchestrators)."""
