"""Between an exchange and the app: PEP 3333, and the steps of an exchange before the app."""

from .gateway import FileResponse, FileWrapper, Gateway, Reply, WSGIApp

__all__ = ["FileResponse", "FileWrapper", "Gateway", "Reply", "WSGIApp"]
