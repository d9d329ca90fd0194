"""A folder for PYTHONPATH: Python processes that a program starts find aserve's `gunicorn` there, as the program does."""
