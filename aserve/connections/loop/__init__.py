"""The event loop's wire: requests that the event loop reads, and whose responses the event loop writes."""
