"""Who wants what, since when, and whether everybody knows of it."""
