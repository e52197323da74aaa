"""Messages of queues are moved to where somebody consumes."""
