"""Tools: what a model can call, from a function to its input schema, its context and its result."""
