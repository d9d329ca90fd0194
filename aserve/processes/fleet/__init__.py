"""The decisions of the supervisor: facts in, actions out, and what the machine has room for."""
