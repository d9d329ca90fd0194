"""The state of the workers: for the status page, for commands, and for the look of each second."""
