"""The applications of one node: what they ask of its tree node, and what they are told.

They stand above `mesh.trees.machine`, which knows roles and messages and no application.
"""
