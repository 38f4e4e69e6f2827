"""Events and the callbacks that hear them."""
