"""From the socket to the exchange and back: accepting, one client's connection, and two wires as the layer below."""
