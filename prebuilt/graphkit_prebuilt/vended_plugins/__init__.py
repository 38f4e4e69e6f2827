"""Plugins that are ready to use, each one an example of what a plugin can do: the door is `graphkit.vended_plugins`."""
