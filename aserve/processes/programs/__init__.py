"""Programs beside the workers."""
