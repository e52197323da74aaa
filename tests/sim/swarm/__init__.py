"""A deterministic swarm: random meshes under random faults, judged after every commit.

`python -m tests.sim.swarm --seeds 0:1000` runs it; a seed decides everything. Spec: reliability.md 6.
"""
