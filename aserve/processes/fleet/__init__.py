"""The decisions of the supervisor: facts in, actions out; the room of the machine."""
