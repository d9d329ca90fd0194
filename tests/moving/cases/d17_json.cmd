# a file of JSON | uwsgi:shop.sock
uwsgi --json shop.json
