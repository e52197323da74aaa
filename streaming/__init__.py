"""The live auditor: Spark reads all Kafka clusters of a mesh and proves what became of messages.

It shares schemas and names with the mesh and none of its decisions. Spec: DESIGN 4.5.
"""
