"""A pure event simulator for `mesh.trees` alone: nodes, links with latencies, applications."""
