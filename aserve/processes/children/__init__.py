"""The processes that the supervisor has forked: their channels, pages, signals and ends."""
