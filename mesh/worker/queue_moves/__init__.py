"""Moves messages of queues to where somebody consumes them."""
