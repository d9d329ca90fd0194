"""The settings of other servers, as they are: those of uWSGI and gunicorn become ours."""
