"""Shared by all rooms: the nouns of a request, texts and times, and the operating system's side of a process."""
