#!/bin/sh
# One of the hosts behind haproxy.cfg. Ports 9100 and 9101 are for HAProxy alone: let a firewall see to it.
exec aserve mysite.wsgi:application --workers 4 --bind :8000 --trusted-proxies 10.0.0.0/24 \
    --metrics :9100 --agent-check :9101 --control /run/site/control \
    --max-connection-requests 1000 --max-connection-age 5m --drain-delay 5
