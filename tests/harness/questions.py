"""Forty questions to the documentation: for the search of the site, and for that of `aserve docs`."""

# As people type them, and the pages that answer.
QUESTIONS = {
    "502 bad gateway": "trouble faq", "DJANGO_SETTINGS_MODULE": "frameworks", "upload size": "limits slow-clients",
    "413 request entity too large": "limits", "worker timeout": "faq deadlines timeouts", "port 80 non-root": "faq deploy command",
    "SCRIPT_NAME": "nginx files proxies", "mount app under prefix": "files", "address already in use": "trouble command",
    "reload without dropping requests": "upgrades faq", "zero downtime deploy": "upgrades", "400 bad request": "trouble",
    "json access log": "logging", "request id": "logging", "environment variables": "command frameworks", "how many workers": "sizing faq",
    "gevent": "faq moving-from-gunicorn", "django static files": "files frameworks", "X-Forwarded-For": "proxies",
    "client ip behind proxy": "proxies faq", "let's encrypt": "letsencrypt", "redirect http to https": "letsencrypt",
    "self signed certificate": "tls", "flask-socketio": "websockets", "memory leak": "trouble faq workers",
    "harakiri": "deadlines moving-from-uwsgi", "max requests": "workers", "graceful shutdown": "command upgrades",
    "kubernetes liveness probe": "health containers", "multiple domains": "several-sites letsencrypt", "auto reload on code change": "development",
    "server sent events": "faq", "slow requests": "slow logging", "app hangs": "trouble slow faq",
    "postgres connection after fork": "databases preload", "celery": "attached two-workers", "cron": "attached",
    "hsts": "added-fields letsencrypt", "gzip": "files", "unix socket permission denied": "nginx trouble",
}  # fmt: skip
