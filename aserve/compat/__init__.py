"""What other servers offer to apps, and how their settings read, under aserve."""
