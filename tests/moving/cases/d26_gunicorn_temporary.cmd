# a script: a folder for the workers' files, lines of debugging
gunicorn app -b 0.0.0.0:@PORT@ --worker-tmp-dir /dev/shm --timeout 900 --chdir=. --log-level debug --log-file -
