# a file of JSON with a list, and HTTP as the protocol of its socket
uwsgi http.json
