"""The auditor put together: micro-batches in, findings and certificates out."""
