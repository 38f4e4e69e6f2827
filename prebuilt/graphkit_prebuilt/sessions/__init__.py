"""Sessions: an agent's conversation that outlives its process."""
