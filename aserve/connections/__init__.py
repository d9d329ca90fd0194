"""From the socket to the exchange and back: accepting, one client's connection, and the two wires below it."""
