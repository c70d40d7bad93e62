"""What is remembered of a running program: nodes, writes, snapshots of memory."""
