"""The numbers of a server, the stacks of its threads, and the log lines about a stall."""
