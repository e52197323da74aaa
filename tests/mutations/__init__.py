"""Planted bugs, to prove that the swarm finds such: `python -m tests.mutations`."""
