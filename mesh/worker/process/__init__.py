"""What the process gives to every part: time, records, errands, logs, injected faults."""
