"""New code takes over within the same process, and the workers of the old code serve on until they are replaced."""
