"""The event loop's wire: requests read, and responses written, by the event loop."""
