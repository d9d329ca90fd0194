# a script of old: FastCGI for the front server
uwsgi --chdir=. --plugins python --module=app:application --env SITE=shop.settings --master --pidfile=run/shop.pid --fastcgi-socket=127.0.0.1:@PORT@ --processes=5 --harakiri=120 --max-requests=5000 --vacuum --touch-reload=run/reload --pp=/usr/lib/nosuch --logto=run/shop.log
