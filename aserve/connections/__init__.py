"""From the socket to the exchange and back: who is let in, one client's connection, and the two wires below it."""
