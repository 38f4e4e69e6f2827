"""Stores: values by namespace and key that outlive threads and are shared by them."""
