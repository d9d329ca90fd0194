"""The threads that run the app, or the event loop in their place. They know no connection and no WSGI."""
