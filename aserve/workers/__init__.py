"""The threads that run the app, or the event loop in their place; without knowledge of connections and WSGI."""
