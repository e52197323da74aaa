"""Single messages: where one went, and those that nobody will deliver."""
