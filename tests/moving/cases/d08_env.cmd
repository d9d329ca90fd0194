# a Dockerfile: a variable, preloaded
gunicorn -e SITE=shop --preload -k gthread --bind 127.0.0.1:@PORT@ --log-level=info "app:application"
