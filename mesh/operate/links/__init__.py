"""Links: what flows over them, and what holds it up."""
