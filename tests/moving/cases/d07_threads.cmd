# a Dockerfile: threads and logs
gunicorn --bind=:@PORT@ --workers=1 --threads=4 --access-logfile=access.log --timeout 60 app:app
