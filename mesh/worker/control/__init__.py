"""What nodes and operators tell a node, and what its leader tells them."""
