"""Orchestrators: several agents, functions and orchestrators that work on one task, as one graph."""
