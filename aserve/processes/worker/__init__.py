"""The child's side: importing the app, serving it, and looking for saved files."""
