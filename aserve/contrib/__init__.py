"""Commands in frameworks' command lines; each becomes the command `aserve`."""
