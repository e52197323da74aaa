"""Single messages: where one went, and which nobody will deliver."""
