"""Caches: what a task came to, for equal input, some time long."""
