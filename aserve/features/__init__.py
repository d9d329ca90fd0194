"""Options that the engine does without: one module or folder each, found by its name."""
