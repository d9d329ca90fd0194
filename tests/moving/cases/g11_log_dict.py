# logging by a dictionary
bind = "127.0.0.1:@PORT@"
accesslog = "-"
logconfig_dict = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(message)s"}},
    "handlers": {"console": {"class": "logging.FileHandler", "filename": "gunicorn.log", "formatter": "plain"}},
    "root": {"level": "INFO", "handlers": ["console"]},
}
