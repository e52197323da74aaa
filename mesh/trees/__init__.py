"""The topology and routing layer: applications address roles on trees, not machines.

Pure: `TreeNode.step(input, now_ms) -> outputs`; no I/O, clock, randomness or unordered iteration.
Spec: tree_layer.
"""

from mesh.trees.machine import TreeNode

__all__ = ["TreeNode"]
