"""The child's side: importing the app, serving, and looking for saved files."""
