"""Commands that frameworks show beside their own; each becomes the command `aserve`."""
