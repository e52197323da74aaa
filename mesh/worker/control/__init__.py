"""What a node hears from nodes and operators, and what its leader writes to them."""
