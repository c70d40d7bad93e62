"""From the record to sites and names: which line made a node, which line wrote, what the user calls a tensor."""
