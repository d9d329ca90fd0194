"""New code takes over within the same process, and workers of the old code serve on until replaced."""
