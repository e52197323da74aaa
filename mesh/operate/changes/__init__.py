"""Changes of the topology of a running mesh: planned, begun, carried out stage by stage."""
