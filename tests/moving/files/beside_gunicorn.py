"""What a library of metrics has for gunicorn: hooks, and a class of workers."""

from gunicorn.workers.sync import SyncWorker


class CountingWorker(SyncWorker):
    """Counts the requests that it has handled."""

    count = 0

    def handle_request(self, listener, req, client, addr):
        """Count, and handle."""
        self.count += 1
        super().handle_request(listener, req, client, addr)


def starting(server):
    """Say that the server starts."""
    server.log.info("metrics of %s", server.pid)


def ready(server):
    """Say that it listens."""
    server.log.info("metrics are ready")
