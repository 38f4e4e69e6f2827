"""Drivers obey the kernel: they start, wait, commit and tell the time, and know nothing of what a graph means."""
