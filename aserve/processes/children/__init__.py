"""The processes of the supervisor: channels, pages, signals and ends."""
