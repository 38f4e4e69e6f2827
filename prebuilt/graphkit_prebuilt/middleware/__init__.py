"""What wraps the stages of an agent's loop: see `stages` for where, `onion` for how."""
