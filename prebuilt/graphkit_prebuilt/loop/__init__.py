"""The loop of an agent: what its nodes do, written once for both doors."""
