"""An app of ASGI."""


async def app(scope, receive, send):
    """Answer each request."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"1")]})
        await send({"type": "http.response.body", "body": b"{}"})
