"""What all rooms share: the nouns of a request, texts and times, and what the operating system gives a process."""
