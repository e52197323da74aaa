"""What the second writer of a lane does: one piece of work at a time. Spec: K16, K20."""
