"""Programs that run beside the workers."""
