"""What the auditor reads, as columns on the JVM and as the few small rows that reach Python."""
