"""Databases as savers and stores find them: engines from what users give, and the drivers' errors as ours."""
