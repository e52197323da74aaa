"""Endpoints and queues: what they hold, who reads it, and which are left over."""
