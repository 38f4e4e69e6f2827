"""Floor 1: threads, checkpoints, savers and stored values. Knows nothing of graphs."""
