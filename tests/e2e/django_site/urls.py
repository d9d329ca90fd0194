"""The admin, an upload, a file and a stream."""

import hashlib
import os

from django.conf import settings
from django.contrib import admin
from django.http import FileResponse, HttpResponse, JsonResponse, StreamingHttpResponse
from django.middleware.csrf import get_token
from django.urls import path


def upload(request):
    """GET: the CSRF token; POST: keep the file, tell its size and form."""
    if request.method != "POST":
        return HttpResponse(get_token(request))
    file = request.FILES["file"]
    digest = hashlib.sha256()
    with open(os.path.join(settings.FOLDER, "uploaded"), "wb") as kept:
        for chunk in file.chunks():
            digest.update(chunk)
            kept.write(chunk)
    return JsonResponse(
        {
            "name": file.name,
            "size": file.size,
            "sha256": digest.hexdigest(),
            "title": request.POST["title"],
            "is_spooled": hasattr(file, "temporary_file_path"),
        }
    )


def download(request):
    """Send the file back, through wsgi.file_wrapper."""
    return FileResponse(open(os.path.join(settings.FOLDER, "uploaded"), "rb"), as_attachment=True)


def stream(request):
    """Send a body in pieces."""
    return StreamingHttpResponse(f"line {number}\n" for number in range(1000))


urlpatterns = [
    path("admin/", admin.site.urls),
    path("upload/", upload),
    path("download/", download),
    path("stream/", stream),
]
