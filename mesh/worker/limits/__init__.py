"""How much may wait for a neighbour or an endpoint, and what happens then. Spec: R14."""
