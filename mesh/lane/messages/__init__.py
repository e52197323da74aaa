"""What becomes of messages: from clients, from neighbours, to links and to endpoints."""
