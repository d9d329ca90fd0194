"""`aserve python -m gunicorn ARGS...`, and `python -m aserve.compat.gunicorn ARGS...`: the command gunicorn, by aserve."""

from aserve.compat.gunicorn.app.wsgiapp import run

if __name__ == "__main__":
    run()
