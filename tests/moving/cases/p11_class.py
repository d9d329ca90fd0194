# the class of workers and TLS set one by one, the app made in load() | https | python case.py
from gunicorn.app.base import BaseApplication


class Server(BaseApplication):
    """A server that tests and tools start."""

    def __init__(self, make, host, port):
        self.make, self.place = make, f"{host}:{port}"
        super().__init__()

    def load_config(self):
        """Set what a configuration would."""
        self.cfg.set("bind", self.place)
        self.cfg.set("worker_class", "gthread")
        self.cfg.set("threads", 4)
        self.cfg.set("workers", 1)
        self.cfg.set("certfile", "cert.pem")
        self.cfg.set("keyfile", "key.pem")
        self.cfg.set("umask", 0o027)
        self.cfg.set("max_requests", 1000)

    def load(self):
        """Make the app."""
        return self.make()


def create_app():
    """Return the app."""
    from app import application

    return application


if __name__ == "__main__":
    Server(create_app, "127.0.0.1", "@PORT@").run()
