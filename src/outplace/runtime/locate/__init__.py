"""From the record to places and names: which line made a node, which line wrote, what a tensor is called."""
