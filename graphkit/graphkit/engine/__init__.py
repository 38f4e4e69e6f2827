"""The kernel: what a graph means, as plain generators.

Nothing in this package is `async`, starts a thread, reads a clock or a random number, or does I/O: it
yields effects (`engine.effects`) and receives replies. Drivers (`graphkit.drivers`) obey.
"""
