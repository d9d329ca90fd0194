# gunicorn's own run(), with a command line that the program makes, and a file | http | python case.py @PORT@
import sys
from pathlib import Path

from gunicorn.app.wsgiapp import run

if __name__ == "__main__":
    Path("settings.py").write_text("workers = 2\nraw_env = ['SITE=shop']\ntimeout = 90\n")
    sys.argv = ["gunicorn", "-c", "settings.py", "-b", f"127.0.0.1:{sys.argv[1]}", "--graceful-timeout", "5", "app"]
    sys.exit(run())
