"""Between an exchange and the app: PEP 3333, and what may stand before it."""

from .gateway import FileResponse, FileWrapper, Gateway, Reply, WSGIApp

__all__ = ["FileResponse", "FileWrapper", "Gateway", "Reply", "WSGIApp"]
