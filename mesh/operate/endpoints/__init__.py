"""Endpoints and queues: what they hold, who reads it, and whose nobody is any more."""
