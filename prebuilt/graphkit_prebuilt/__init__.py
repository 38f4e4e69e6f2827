"""Floor 3: what is built from graphs (agents, tools, orchestrators). Empty until its first resident moves in."""
